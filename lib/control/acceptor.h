// The two ends of an authenticated TCP connection: an acceptor admits those that prove that they
// belong to the job, a caller connects to one. Both are stepped by a poll loop and never block.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/control/address.h"
#include "lib/control/handshake.h"
#include "lib/control/kept_key.h"
#include "lib/control/socket.h"

namespace tutti {

// A stranger, which cannot prove it, is refused without an answer. It takes at most one of 64
// places for two seconds; the oldest goes when a place is needed. Whoever has greeted takes none of
// them: it holds the key, or replays the hello of one that does, so these have a limit too. A
// member that is turned out learns it, because it was not admitted, and calls again.
class Acceptor {
 public:
  struct Guest {
    Fd socket;
    Handshake handshake;  // done

    const Claim& claim() const { return handshake.claim(); }
  };
  static constexpr size_t most_strangers = 64;
  // For those who have not proved yet that they belong to the job; with fewer it works, but slowly.
  static constexpr size_t spare_descriptors = 16;
  static constexpr uint64_t patience_ns = 2'000'000'000u;

  // `expected`: how many connections of members.
  Acceptor(Fd listener, const JobKey& key, uint8_t purposes, uint64_t job, int server,
           size_t expected);

  void watch(std::vector<pollfd>& set) const;
  // When advance() is due even if nothing happens.
  uint64_t due_ns() const;
  // Goes as far as possible without waiting and appends those admitted to *in.
  Status advance(uint64_t now_ns, std::vector<Guest>* in);
  void close();

  uint64_t refused() const { return refused_; }

 private:
  struct Pending {
    Fd socket;
    Handshake handshake;
    uint64_t due_ns;
  };
  enum class Next { wait, enter, leave };

  Fd accept_one();  // empty: errno says why
  Status accept(uint64_t now_ns, std::vector<Guest>* in);
  void limit();
  bool turn_out_oldest(bool greeted);
  static Status step(Pending& pending, Next* next);
  static void enter(Pending& pending, std::vector<Guest>* in);

  Fd listener_;
  KeptKey key_;
  uint8_t purposes_;
  uint64_t job_;
  int server_;
  size_t most_greeted_;
  std::vector<Pending> pending_;  // the oldest first
  uint64_t refused_ = 0;
};

// What a caller needs to know.
struct Destination {
  Address address;
  // The own address to call from; without a family: any.
  Address from;
  JobKey key{};
  Claim claim;
  // Nobody may be listening yet: call again until somebody is.
  bool patient = false;
};

class Caller {
 public:
  enum class State { calling, done, failed };

  explicit Caller(const Destination& to) : to_(to) {}

  State state() const { return state_; }
  const Status& error() const { return error_; }
  const Claim& claim() const { return to_.claim; }
  // What the last call that reached nobody met with; 0: none.
  int obstacle() const { return obstacle_; }
  Fd take() { return std::move(socket_); }
  const Handshake& handshake() const { return handshake_; }

  void watch(std::vector<pollfd>& set) const;
  uint64_t due_ns() const { return due_ns_; }
  void advance(uint64_t now_ns);

 private:
  enum class Step { idle, connecting, shaking_hands };

  std::string who() const;
  void fail(Status error);
  void dial(uint64_t now_ns);
  void check_connected(uint64_t now_ns);
  void connected();
  void shake_hands(uint64_t now_ns);
  void could_not_connect(uint64_t now_ns, int error_number);
  void was_refused(uint64_t now_ns);
  void call_again(uint64_t now_ns, uint64_t after_ns);

  Destination to_;
  State state_ = State::calling;
  Step step_ = Step::idle;
  Status error_;
  Fd socket_;
  Handshake handshake_ = Handshake::client({}, {}, {});
  uint64_t due_ns_ = 0;
  int refusals_ = 0;
  int obstacle_ = 0;
};

}  // namespace tutti
