// A network on which whole jobs run: each rank has a host of its own and is a thread, of which one
// runs at a time, and what the library asks the kernel about sockets and time is answered here
// (system_calls.cc). There is one clock, which moves on when a rank makes a system call, or when
// all sleep. The order of the ranks, delays, lengths of buffers and the fault all follow from a
// seed.
//
// Connections are what TCP makes of packets: bytes in order, lost ones sent again 0.2, 0.6, 1.4 ...
// seconds after the first time, an acknowledgement that may get lost too, FIN and RST.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/network/turns.h"

namespace tutti::network {

enum class Kind {
  none,
  kill,       // the process ends, and its kernel closes what it had open
  power_off,  // its host does not answer any more
  pause,      // the process is stopped for up to 0.9 s
  hiccup,     // the network carries nothing to or from its host for up to 0.5 s
  unplug,     // nor ever again
  mute,       // what its host sends is lost from now on
  deafen,     // what is sent to it is lost
  reset,      // somebody ends one of its connections
  flip,       // a bit of what it sends next is changed on the way
  leave_out,  // some bytes of it are left out
  repeat,     // come twice
  insert,     // are added
};

sockaddr_in address_of(int rank);  // of its host, without a port

struct Fault {
  Kind kind = Kind::none;
  int victim = 0;
  uint64_t call = 0;  // where its process makes the system call of that number
};

// One way of a connection.
struct Flow {
  struct Segment {
    std::string bytes;
    enum class What { data, end, reset } what = What::data;
    uint64_t sent_ns, arrives_ns;
    uint64_t acknowledged_ns = 0;  // 0: it has not arrived
    uint32_t tries = 0;            // in vain
  };
  int from, to;                  // ranks
  size_t room;                   // bytes on the way and unread at most
  std::deque<Segment> segments;  // until they are acknowledged
  size_t arrived = 0;            // of them
  std::string unread;
  size_t on_the_way = 0;
  uint64_t acknowledged = 0;  // bytes

  size_t left() const {
    const size_t taken = on_the_way + unread.size();
    return room > taken ? room - taken : 0;
  }
};

struct Socket {
  enum class State { fresh, listening, connecting, open };
  int rank;
  State state = State::fresh;
  sockaddr_in own{}, peer{};
  int error = 0;          // of the connection
  bool told = false;      // of the error
  bool ended = false;     // all that the other side sent has come
  bool shut = false;      // this side sends no more
  bool closed = false;    // no descriptor is left
  uint64_t limit_ns = 0;  // TCP_USER_TIMEOUT, which keepalive has, too
  uint64_t heard_ns = 0;  // when something came last, be it an acknowledgement
  uint64_t activity = 0;  // for edge-triggered epoll
  std::shared_ptr<Flow> in, out;
  std::weak_ptr<Socket> other;
  std::deque<std::shared_ptr<Socket>> waiting;  // to be accepted

  short events() const;
  // As kernels do: once; 0 from then on.
  int tell_error() { return error == 0 || std::exchange(told, true) ? 0 : error; }
};

class Network {
 public:
  static constexpr int first_descriptor = 5000;  // the kernel's own are below

  Network(uint64_t seed, int nranks, const Fault& fault);

  // Runs `rank` as each rank until all have ended. Where they have not after an hour of the clock,
  // all are killed, and hung() says so.
  void run(const std::function<void(int)>& rank);

  bool hung() const { return hung_; }
  uint64_t struck_ns() const { return struck_ns_; }
  uint64_t now_ns() const { return now_ns_; }
  size_t descriptors() const { return things_.size(); }
  // Follows from everything that has happened.
  uint64_t digest() const { return digest_; }

  // ---- for system_calls.cc; errors as the system calls have them
  static Network* current();  // null: the caller is no rank
  bool has(int fd) const { return fd >= first_descriptor; }
  uint64_t clock();
  void yield() { step(true); }
  static int rank() { return Turns::current(); }

  int make_socket();
  int make_epoll();
  int make_bell();
  int duplicate(int fd);
  int close(int fd);
  int bind(int fd, const sockaddr_in& to);
  int listen(int fd);
  int connect(int fd, const sockaddr_in& to);
  int accept(int fd);
  int address(int fd, bool peer, sockaddr_in* out);
  int take_error(int fd, int* out);
  // What TCP_INFO and SIOCOUTQ tell.
  struct Contact {
    uint32_t tries = 0, unacknowledged = 0;
    uint64_t acknowledged = 0;
  };
  int contact(int fd, Contact* out);
  int set_limit(int fd, uint64_t limit_ns);
  int shut(int fd);
  ssize_t send(int fd, const iovec* parts, size_t n);
  ssize_t receive(int fd, const iovec* parts, size_t n);
  int poll(pollfd* set, size_t n, uint64_t wait_ns);
  int epoll_change(int fd, int what, int of, const epoll_event* event);
  int epoll_look(int fd, epoll_event* out, int most);
  int ring(int fd);
  int take_rings(int fd, uint64_t* out);

 private:
  struct Watched {
    epoll_event event;
    uint64_t seen = 0;
  };
  struct Thing {  // what a descriptor stands for
    int rank;
    std::shared_ptr<Socket> socket;
    bool is_epoll = false, is_bell = false;
    uint64_t rings = 0;
    std::map<int, Watched> watched;
  };
  struct Rank {
    uint64_t calls = 0;
    bool ended = false, dead = false;
    uint64_t paused_until_ns = 0;
    uint64_t asleep_until_ns = 0, asleep_at = 0;  // 0: awake; the number of events then
  };
  // A SYN on its way, or the answer.
  struct Dial {
    std::shared_ptr<Socket> socket;
    uint64_t arrives_ns, began_ns;
    uint32_t tries = 0;
    bool answer = false, refused = false;
  };

  void step(bool gives_way);
  void sleep(uint64_t until_ns);
  bool can_run(size_t rank) const;
  int next_rank();
  void move_network();
  void move(Socket& socket);
  void deliver(Socket& to, const Flow::Segment& segment);
  uint64_t ends_ns(const Socket& socket) const;
  bool acknowledge(Flow& flow);  // whether anything was
  bool move_dial(Dial& dial);
  void connect_to_listener(Dial& dial);
  uint64_t next_event_ns() const;
  bool is_blocked(int from, int to) const { return blocked_[size_t(from)][size_t(to)] != 0; }
  void block(int from, int to, bool yes);
  void block_host(int rank, bool yes);
  uint64_t delay_ns();
  uint64_t again_ns(uint64_t sent_ns, uint32_t tries) const;
  void put(Socket& from, Flow::Segment::What what, std::string bytes);
  void fail(Socket& socket, int error);
  void release(const std::shared_ptr<Socket>& socket);
  void strike();
  void reset_one();
  void garble(std::string& bytes);
  int add(Thing thing);
  Thing* find(int fd);
  Socket* socket_of(int fd);
  short events_of(int fd);
  bool is_dead(int rank) const { return ranks_[size_t(rank)].dead; }
  uint64_t below(uint64_t n) { return random_() % n; }
  void note(uint64_t what) { digest_ = (digest_ ^ what) * 0x100000001b3u; }

  std::mt19937_64 random_;
  Fault fault_;
  uint64_t struck_ns_ = 0;
  uint64_t heals_ns_ = 0;
  bool garbles_ = false;
  uint64_t now_ns_;
  uint64_t due_ns_ = 0;  // when move_network() has something to do
  uint64_t events_ = 0;  // counts what may wake a sleeper
  uint64_t digest_ = 0xcbf29ce484222325u;
  uint64_t mean_delay_ns_;
  uint64_t calls_a_turn_;  // of a rank, on average, before another one goes on
  size_t room_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> blocked_;         // from, to
  std::vector<std::shared_ptr<Socket>> sockets_;  // until both sides have gone
  std::vector<Dial> dials_;
  std::map<int, Thing> things_;
  std::map<uint16_t, std::weak_ptr<Socket>> listeners_[256];  // by rank and port
  uint16_t next_port_ = 20'000;
  int next_descriptor_ = first_descriptor;
  bool hung_ = false;
  Turns turns_;
};

}  // namespace tutti::network
