// A Link over shared memory: for every ordered pair of ranks a ring of slots that the sender fills
// and the receiver empties. Serves processes (shm) and threads (inproc) alike; whoever opens the
// link provides the memory and detects deaths.
//
// Wake-ups cost the fast path one load: a rank that goes to sleep sets its doorbell, then issues a
// memory barrier on every core (membarrier), then polls once more. So a peer that publishes after
// that sees the doorbell with a plain load.
#pragma once

#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/slots/access.h"
#include "lib/slots/cells.h"
#include "lib/slots/mail.h"
#include "lib/slots/segment.h"
#include "transports/transport.h"

namespace tutti::slots {

// How the opener of a link finds out about deaths.
class DeathWatch {
 public:
  virtual ~DeathWatch() = default;
  // Whether the rank of this local index is dead, or has replaced itself by another program: one
  // system call, so not for every poll.
  virtual bool dead(uint32_t local) = 0;
};

// What SlotLink needs to start; made by the openers.
struct SlotLinkParts {
  std::string name;
  Segment segment;
  std::shared_ptr<void> mapping;      // keeps the segment mapped
  std::unique_ptr<DeathWatch> watch;  // nullptr: deaths cannot happen (threads)
  std::vector<int> ranks;             // of the communicator, by local index
  uint32_t self = 0;                  // own local index
  uint32_t comm_nranks = 1;
  // Tuning::write_prefetch_taking_bytes.
  size_t write_prefetch_bytes = default_tuning.write_prefetch_taking_bytes;
};

// "rank 2 calls allreduce of 5 float32, sum, ring".
std::string rank_calls(int rank, const CallMark& mark);

// Of a message. With the other digest, which is of its number, too, 63 bits that differ.
uint32_t second_digest(const CallSignature& signature);

// The ranks that a link joins, in order; *self: the own rank's index among them.
std::vector<int> group_of(const LinkSetup& setup, uint32_t* self);

class SlotLink final : public Link {
 public:
  static constexpr int looks = 8;
  static constexpr size_t short_move_bytes =
      0;  // a short move was one slot: the next slot may be full too

  explicit SlotLink(SlotLinkParts parts);
  ~SlotLink() override;

  const char* name() const override { return name_.c_str(); }
  void begin(const CallMark& mark) override;

  // Whether try_send() would take something: all, of no more bytes than a slot has.
  [[gnu::always_inline]] bool has_room(int peer) {
    Outgoing& ring = outgoing_[peer];
    if (ring.sent - ring.credit < slots_) return true;
    ring.credit = load(ring.credit_line->consumed, std::memory_order_acquire);
    return ring.sent - ring.credit < slots_;
  }

  [[gnu::always_inline]] size_t try_send(int peer, const std::byte* data, size_t bytes) override {
    if (!has_room(peer)) return 0;
    Outgoing& ring = outgoing_[peer];
    const uint32_t slot = ring.sent & (slots_ - 1);
    SlotLine& line = ring.lines[slot];
    const size_t taken = bytes < slice_bytes_ ? bytes : slice_bytes_;
    std::byte* const to =
        taken <= SlotLine::inline_bytes ? line.payload : ring.data + size_t(slot) * slice_bytes_;
    will_write(&line.bytes, sizeof(line.bytes) + sizeof(line.second));
    will_write(to, taken);
    line.bytes = uint32_t(taken);
    line.second = mark_.epoch != 0 ? 0 : second();
    std::memcpy(to, data, taken);
    ++ring.sent;
    store(line.flag, make_flag(ring.sent, digest_), std::memory_order_release);
    wake(ring.local);
    if (taken > SlotLine::inline_bytes && taken <= most_prefetched_) prefetch_next(ring, taken);
    return taken;
  }

  [[gnu::always_inline]] std::span<const std::byte> try_peek(int peer, size_t most,
                                                             size_t granule) override {
    Incoming& ring = incoming_[peer];
    if (ring.carried != 0) [[unlikely]]
      return peek_carried(peer, most, granule);
    const std::span<const std::byte> data = peek_slot(peer, most, granule);
    // Less than one granule has arrived: the granule continues in the next slot.
    if (data.empty() && data.data() != nullptr && most >= granule) [[unlikely]]
      return peek_carried(peer, most, granule);
    return data;
  }

  [[gnu::always_inline]] void consume(int peer, size_t bytes) override {
    if (incoming_[peer].carried != 0) [[unlikely]]
      return consume_carried(peer, bytes);
    consume_slot(peer, bytes);
  }

  Next next(int peer, const CallMark& mark) override;

  size_t try_recv(int peer, std::byte* to, size_t most) override {
    const std::span<const std::byte> data = try_peek(peer, most, 1);
    if (data.empty()) return 0;
    std::memcpy(to, data.data(), data.size());
    consume(peer, data.size());
    return data.size();
  }

  // Wakes the rank with this local index if it sleeps. To be called after anything was published
  // that it may wait for.
  void wake(uint32_t local) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::atomic<uint32_t>& doorbell = segment_.rank(local).doorbell;
    if (load(doorbell, std::memory_order_relaxed) != 0) [[unlikely]]
      ring(doorbell);
  }

  // The same for all others.
  void wake_all() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (std::atomic<uint32_t>* const doorbell : others_doorbells_) {
      if (load(*doorbell, std::memory_order_relaxed) != 0) [[unlikely]]
        ring(*doorbell);
    }
  }

  // `peer` has posted a flag with the expected sequence and another call's digest: inspect() will
  // look for the mismatch (lib/shared_memory calls this).
  void note_mismatched(int peer) { mismatched_peer_ = peer; }

  bool one_process() const { return watch_ == nullptr; }

  Status inspect(uint64_t now_ns) override;
  void arm() override;
  void disarm() override;
  void sleep(uint64_t until_ns) override;
  std::optional<CallMark> last_seen(int peer) const override;
  void abort(const Status& reason) override;
  void leave(bool in_call) noexcept override;
  void post_note(const Note& note) override;
  Note read_note(int peer) const override;
  void post_mail(int peer, std::string_view text) override;
  bool take_mail(int peer, std::string* text) override;
  bool mail_is_out(int peer) const override { return mail_.is_out(uint32_t(local_[peer])); }
  Presence presence(int peer, uint64_t now_ns) override;
  void sleep_for_mail(uint64_t until_ns) override;
  void move_on() override { moved_on_ = true; }
  uint32_t most_spins() const override { return UINT32_MAX; }
  SlotLink* slots() override { return this; }
  // Null where ranks of the communicator are on other hosts.
  SharedCells* cells() { return cells_ ? &*cells_ : nullptr; }

 private:
  struct Outgoing {
    SlotLine* lines = nullptr;
    std::byte* data = nullptr;
    CreditLine* credit_line = nullptr;
    uint32_t sent = 0;    // slots filled since the start, modulo 2^32
    uint32_t credit = 0;  // of them known to be emptied
    uint32_t local = 0;   // index of the peer
  };
  struct Incoming {
    const SlotLine* lines = nullptr;
    const std::byte* data = nullptr;
    CreditLine* credit_line = nullptr;
    uint32_t received = 0;
    uint32_t bytes = 0;   // in the current slot: read once, since the peer could change it
    uint32_t offset = 0;  // of them consumed
    uint32_t local = 0;
    uint32_t carried = 0;  // bytes in carries_ that come before the current slot
  };

  // try_peek() of the current slot alone; data() is null where nothing has arrived.
  [[gnu::always_inline]] std::span<const std::byte> peek_slot(int peer, size_t most,
                                                              size_t granule) {
    Incoming& ring = incoming_[peer];
    const uint32_t slot = ring.received & (slots_ - 1);
    const SlotLine& line = ring.lines[slot];
    const uint64_t flag = load(line.flag, std::memory_order_acquire);
    if (flag != make_flag(ring.received + 1, digest_)) {
      if (flag_sequence(flag) == ring.received + 1) mismatched_peer_ = peer;
      return {};
    }
    if (ring.offset != 0) [[unlikely]]
      return peek_rest(peer, most, granule);
    will_read(&line.bytes, sizeof(line.bytes));
    ring.bytes = static_cast<const volatile SlotLine&>(line).bytes;
    if (ring.bytes > slice_bytes_) [[unlikely]]
      return refuse_slot(peer);
    const std::byte* const data = data_of(ring, slot);
    will_read(data, ring.bytes);
    return {data, whole_granules(ring.bytes < most ? ring.bytes : most, granule)};
  }

  const std::byte* data_of(const Incoming& ring, uint32_t slot) const {
    return ring.bytes <= SlotLine::inline_bytes ? ring.lines[slot].payload
                                                : ring.data + size_t(slot) * slice_bytes_;
  }

  [[gnu::always_inline]] void consume_slot(int peer, size_t bytes) {
    Incoming& ring = incoming_[peer];
    ring.offset += uint32_t(bytes);
    if (ring.offset < ring.bytes) return;
    ring.offset = 0;
    ++ring.received;
    store(ring.credit_line->consumed, ring.received, std::memory_order_release);
    wake(ring.local);
  }

  // peek_slot() where a part of the slot is consumed already.
  std::span<const std::byte> peek_rest(int peer, size_t most, size_t granule);
  // For a slot that claims more bytes than fit: returns nothing to read; inspect() reports it.
  std::span<const std::byte> refuse_slot(int peer);

  // try_peek() and consume() where a granule spans slots: its pieces are copied together.
  std::span<const std::byte> peek_carried(int peer, size_t most, size_t granule);
  void consume_carried(int peer, size_t bytes);

  void ring(std::atomic<uint32_t>& doorbell);
  std::optional<CallMark> read_call(uint32_t local, uint64_t epoch) const;
  uint64_t latest_epoch(uint32_t local) const;
  Status find_abort() const;
  Status find_failure(uint64_t now_ns);
  bool reason_comes(uint64_t now_ns);
  Status compare_calls(uint64_t now_ns);
  Status compare_call(uint32_t local, const CallMark& mark, uint64_t now_ns);
  // Compares the calls before this one, as far back as both ranks have kept them.
  Status compare_earlier(uint32_t local);
  // A peer makes this call, too, but the result of its call before differs.
  Status compare_results(const CallMark& mark, uint64_t now_ns);
  bool has_left(uint32_t local) const;
  Status find_dead(uint64_t now_ns);
  void abandon_call() noexcept;
  // Prefetches for writing where the next message like this one will be written, if it is known to
  // have been read: its receiver's cache has held that since the ring's last pass. Not of messages
  // that fill their slot: the next part is written at once.
  void prefetch_next(const Outgoing& ring, size_t bytes) const {
    if (ring.sent - ring.credit >= slots_) return;
    const size_t next = ring.sent & (slots_ - 1);
    prefetch_for_write(reinterpret_cast<const std::byte*>(&ring.lines[next]), 1);
    prefetch_for_write(ring.data + next * slice_bytes_, bytes);
  }
  uint32_t second() {
    if (second_ == 0) second_ = second_digest(mark_.signature);
    return second_;
  }
  void publish_abort(AbortRecord& record) noexcept;

  // Hot fields first: those that the try_ verbs touch.
  uint32_t slots_;
  uint32_t slice_bytes_;
  size_t most_prefetched_;            // bytes of a slot
  uint32_t digest_ = 0, second_ = 0;  // second_: 0 until it is needed
  int mismatched_peer_ = -1;          // a peer whose slice carried another digest
  int corrupt_ = -1;                  // a peer whose slot claims more bytes than fit
  std::vector<Outgoing> outgoing_;    // by rank of the communicator
  std::vector<Incoming> incoming_;
  std::vector<std::vector<std::byte>> carries_;  // the pieces of a granule; by rank
  Segment segment_;
  uint32_t self_;
  RankLines* own_;  // this rank's, in the segment
  std::vector<std::atomic<uint32_t>*> others_doorbells_;

  std::string name_;
  std::shared_ptr<void> mapping_;
  std::unique_ptr<DeathWatch> watch_;
  std::vector<int> ranks_;
  std::vector<int> local_;  // local index by rank, -1: not here
  std::optional<SharedCells> cells_;
  Mail mail_;
  struct Watched {
    uint64_t looked_ns = 0;
    bool dead = false;
  };
  std::vector<Watched> watched_;  // by presence(); by local index
  bool moved_on_ = false;
  CallMark mark_;
  std::mutex note_mutex_;           // of who posts a note
  Note note_;                       // the own one, as it stands in the segment
  uint64_t watched_ns_ = 0;         // when deaths were last looked for
  uint64_t reason_awaited_ns_ = 0;  // since when a reason for a failure has been written
  ResultMismatch results_;
  bool waits_for_results_ = false;  // results differ: results_ waits to hear from more peers
  int suspect_ = -1;                // a peer that seemed to be in another call when last looked at
};

}  // namespace tutti::slots
