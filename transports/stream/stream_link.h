// A Link over data streams, each with a control channel (a socket) beside it.
//
// A rank that waits sends its peers, over the control channels, which call it is in; so two ranks
// that wait for each other in different calls detect the mismatch. A channel that closes without a
// bye frame is a dead peer, whether or not this rank waits for it. So is one that this rank waits
// for and whose host does not answer (lib/control/heartbeat.h).
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/base/fd.h"
#include "lib/control/frame_channel.h"
#include "lib/control/heartbeat.h"
#include "transports/stream/data_stream.h"
#include "transports/stream/late_connections.h"
#include "transports/stream/late_socket.h"
#include "transports/transport.h"

namespace tutti::tcp {

// One pair. Control frames have a connection of their own, so that an abort never queues behind
// data (head-of-line blocking).
struct Pair {
  std::unique_ptr<DataStream> data;
  SecureSocket control;
};

class StreamLink final : public Link {
 public:
  // `pairs`: by rank of the communicator, empty where there is none. `heartbeat_ns`: as in
  // LinkSetup. `carrier`: what carries their data, where the streams have no sockets.
  StreamLink(const char* name, uint64_t comm_id, int self, std::vector<Pair> pairs,
             uint64_t heartbeat_ns, std::unique_ptr<Carrier> carrier = nullptr);
  ~StreamLink() override;

  // The streams' connections are made on these terms, each when its pair first uses it. Before
  // prepare().
  void connect_at_first_use(Terms terms) { late_.emplace(std::move(terms)); }
  // Makes all that can fail before the first call.
  Status prepare();
  bool has_peers() const { return has_peers_; }

  const char* name() const override { return name_; }
  void begin(const CallMark& mark) override;
  size_t try_send(int peer, const std::byte* data, size_t bytes) override;
  std::span<const std::byte> try_peek(int peer, size_t most, size_t granule) override;
  void consume(int peer, size_t bytes) override;
  Next next(int peer, const CallMark& mark) override;
  size_t try_recv(int peer, std::byte* to, size_t most) override;
  Status inspect(uint64_t now_ns) override;
  void arm() override;
  void sleep(uint64_t until_ns) override;
  std::optional<CallMark> last_seen(int peer) const override;
  void abort(const Status& reason) override;
  void leave(bool in_call) noexcept override;
  void post_note(const Note& note) override;
  Note read_note(int peer) const override;
  const char* addresses_to(int peer) const override;
  Integrity integrity_to(int peer) const override;
  // stream_mail.cc
  void post_mail(int peer, std::string_view text) override;
  bool take_mail(int peer, std::string* text) override;
  bool mail_is_out(int peer) const override;
  Presence presence(int peer, uint64_t now_ns) override;
  bool is_on_other_host(int peer) const override;
  void sleep_for_mail(uint64_t until_ns) override;
  void move_on() override { moved_on_ = true; }

 private:
  // What a peer's status frame said.
  struct Said {
    CallMark mark;
    uint64_t stream = 0;  // bytes that it had sent to this rank by then
  };
  struct Peer final : EarlyPath {
    Peer(StreamLink& link, Pair pair, int rank);
    // stream_late.cc
    bool is_out() override;
    void post(wire::Type type, std::string_view payload) override;
    void look() override;
    void want() override;
    bool can_be_asked() const { return !host.empty() && !left && !closed; }
    // With its host, by the control connection and what data has moved.
    Contact contact() const;
    // Its host has not answered, or the kernel has given the connection up.
    bool is_silent() const;

    StreamLink& link;
    int rank;
    std::string host;       // its address; empty where that is this host
    std::string addresses;  // of the two ends of the control channel, as addresses_to() has them
    std::unique_ptr<DataStream> stream;
    LateSocket* late;  // of the stream; null: it needs no connection
    FrameChannel control;
    uint64_t receive_waits_in = 0;  // the number of the call in which a receive found nothing
    uint64_t send_waits_in = 0;
    uint64_t next_waits_in = 0;  // in which next() found nothing: others may send instead of it
    std::array<Said, 8> said;    // of its latest status frames, as a ring
    size_t said_count = 0;
    Inquiry inquiry;  // into its host
    // The last status frame sent to it, and how many since something came from it.
    uint64_t told_call = 0;
    uint64_t told_stream = 0;
    uint32_t told_count = 0;
    uint64_t heard_stream = 0;
    Note note;                   // the latest that it posted
    uint64_t note_told = 0;      // the latest of this rank's notes sent to it; under control_mutex_
    bool told_of_abort = false;  // under control_mutex_
    std::atomic<uint32_t> notes_unheard{0};  // sent to it since something came from it
    std::deque<std::string> mail;            // that has come
    bool asks = false, has_asked = false;    // for the data connection
    bool left = false;                       // it sent a bye frame
    bool moved_on = false;                   // before that it had gone on in another communicator
    bool closed = false;                     // its control channel is closed
    Status broken;                           // why the channel failed, if it did
    bool given_up = false;                   // by the kernel, which heard nothing
    Presence presence = Presence::here;      // that it was found in while nobody knew
    bool hung_up = false;                    // epoll reported a hang-up of its data connection
    uint64_t ended_ns = 0;                   // when its data was first seen to have ended
  };

  std::unique_lock<std::mutex> hold() const {
    return carrier_ != nullptr ? carrier_->hold() : std::unique_lock<std::mutex>();
  }
  bool waits_for(const Peer& peer) const {
    return peer.receive_waits_in == calls_ || peer.send_waits_in == calls_ ||
           peer.next_waits_in == calls_;
  }
  // And from nobody else: what next() has not found another one may send.
  bool receives_from(const Peer& peer) const {
    return peer.receive_waits_in == calls_ ||
           (peer.next_waits_in == calls_ && mark_.epoch == 0 && mark_.peer == peer.rank);
  }
  // stream_late.cc
  void ask_to_connect(Peer& peer);
  // False: it says what cannot be.
  bool take_connect(Peer& peer, std::string_view payload);
  void let_go(Peer& peer);
  bool is_connecting() const { return !asking_.empty() || (late_ && late_->is_busy()); }
  void advance_late(uint64_t now_ns);
  void go_on_connecting();  // not more often than pays
  void sleep_while_connecting(uint64_t until_ns);
  Status own_error(const Status& why) const;
  Status watch(int fd, uint32_t events, uint64_t what);
  void watch_data_of(Peer& peer);
  void watch_data();
  void take_events();
  void read_control(Peer& peer);
  void take_frame(Peer& peer, const wire::Header& header, std::string_view payload);
  void fail(Status error);
  void take_text(Peer& peer, std::string_view text);
  void tell(Peer& peer, wire::Type type, std::string_view payload = {}) {
    tell(peer, type, mark_, payload);
  }
  void tell(Peer& peer, wire::Type type, const CallMark& mark, std::string_view payload);
  void tell_call(uint64_t now_ns);
  void let_farewells_arrive() noexcept;

  Status find_corrupt() const;
  Status find_mismatch();
  Status compare(const Peer& peer);
  // For peers that make the same call, but after another result of the call before it.
  Status compare_results();
  Status find_absent(const Peer& peer) const;
  Status find_failed(uint64_t now_ns);
  // Looks whether the hosts of the peers that the call waits for answer, and asks them.
  Status find_silent(uint64_t now_ns);
  // Looks whether its host has answered, and asks it where it is time.
  Contact ask(Peer& peer, uint64_t now_ns);
  void ask_others(const Peer& suspect, uint64_t now_ns);
  // Whether none of several hosts answers, `suspect` among them.
  bool is_cut_off(const Peer& suspect) const;
  // It is lost, and with it those of its host that do not answer either.
  Presence lose(Peer& suspect);
  Status silence_error(const Peer& suspect, uint64_t asked_ns) const;
  Status stranger_error(const Peer& peer);
  Status earlier_error(const Peer& peer);
  std::string own_call() const;
  // What comes would be wrong.
  bool refuses() const { return over_ && !what_came_counts(failure_.code()); }
  std::optional<CallMark> seen_of(int rank) const;
  std::string latest_call(const Peer& peer) const;

  const char* name_;
  Heartbeat heartbeat_;
  std::unique_ptr<Carrier> carrier_;  // outlives the streams
  bool over_ = false;                 // inspect() has found why
  bool moved_on_ = false;
  CallMark mark_;
  CallMark previous_;                         // of the collective call before it
  uint64_t calls_ = 0;                        // begun, of any kind
  uint64_t collective_ = 0;                   // epoch of the latest collective call
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  bool has_peers_ = false;

  std::optional<LateConnections> late_;
  uint64_t connected_ns_ = 0;  // when it was last seen how far connections are
  std::vector<int> asking_;    // the ranks to which this one wants a connection that is not there

  uint64_t comm_id_;
  int self_;
  Fd events_;  // epoll: control channels and doorbell; from the first sleep on also the data
  Fd bell_;    // the doorbell, an eventfd that abort() writes to
  bool watches_data_ = false;
  bool stirred_ = false;  // an event on the data or the doorbell since arm()
  uint64_t told_ns_ = 0;  // when this call was last sent to the peers, or first inspected
  uint64_t told_in_ = 0;  // the call that told_ns_ belongs to
  Status failure_;
  ResultMismatch results_;
  uint64_t differs_since_ns_ = 0;  // since when earlier_error() waits for the call that differs
  uint64_t inspected_ns_ = 0;

  // Guards what is sent over the control channels, abort_reason_ and the notes.
  mutable std::mutex control_mutex_;
  std::atomic<bool> aborted_{false};
  Status abort_reason_;
  Note note_;           // this rank's
  uint64_t notes_ = 0;  // how many different ones were posted
};

}  // namespace tutti::tcp
