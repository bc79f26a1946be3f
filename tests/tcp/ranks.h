// Ranks over tcp for tests: as threads, as processes, and calls that block until they are through.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <vector>

#include "lib/clock.h"
#include "lib/control/bootstrap.h"
#include "lib/wait.h"
#include "tests/support/thread_exchange.h"
#include "transports/tcp/tcp.h"

namespace tutti::testing {

inline CallMark mark_of(uint64_t epoch, uint64_t count = 1) {
  CallMark mark;
  mark.epoch = epoch;
  mark.signature.count = count;
  mark.signature.dtype = TUTTI_FLOAT32;
  mark.digest = call_digest(epoch, mark.signature);
  return mark;
}

inline Status send_all(Link& link, int peer, const void* data, size_t bytes,
                       uint64_t limit_ns = 10'000'000'000u) {
  size_t done = 0;
  return complete(
      link, Patience{100, 20}, limit_ns,
      [&] {
        const size_t n =
            link.try_send(peer, static_cast<const std::byte*>(data) + done, bytes - done);
        done += n;
        return n != 0;
      },
      [&] { return done == bytes; });
}

inline Status recv_all(Link& link, int peer, void* data, size_t bytes,
                       uint64_t limit_ns = 10'000'000'000u) {
  size_t done = 0;
  return complete(
      link, Patience{100, 20}, limit_ns,
      [&] {
        const size_t n = link.try_recv(peer, static_cast<std::byte*>(data) + done, bytes - done);
        done += n;
        return n != 0;
      },
      [&] { return done == bytes; });
}

// All pairs over tcp.
inline Status open_all(Exchange& exchange, uint64_t comm_id, std::unique_ptr<Link>* out,
                       const std::string& interface = "", int64_t limit_ms = 20'000) {
  std::vector<uint8_t> peers(size_t(exchange.nranks()), 1);
  peers[size_t(exchange.rank())] = 0;
  const LinkSetup setup{&exchange, comm_id, peers, interface, deadline_after_ms(limit_ms)};
  return open_tcp(setup, out);
}

// Runs body(rank, link) on threads that are joined by tcp.
inline void on_links(int nranks, const std::function<void(int, Link&)>& body) {
  static std::atomic<uint64_t> next_id{100};
  const uint64_t comm_id = next_id++;
  auto group = std::make_shared<ThreadExchangeGroup>(nranks);
  on_threads(nranks, [&](int rank) {
    ThreadExchange exchange(group, rank);
    std::unique_ptr<Link> link;
    const Status opened = open_all(exchange, comm_id, &link);
    ASSERT_TRUE(opened.ok()) << opened.text();
    body(rank, *link);
    // Nobody leaves while a peer may still look.
    std::vector<std::string> all;
    ASSERT_TRUE(exchange.allgather("", deadline_after_ms(20'000), &all).ok());
  });
}

// A rank in a process of its own. What it finds wrong it says on stderr and in its exit status.
class RankProcess {
 public:
  explicit RankProcess(const std::function<int()>& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body());
  }
  RankProcess(RankProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~RankProcess() {
    if (pid_ <= 0) return;
    kill(SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  // The exit status, -1 for a process that a signal ended.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

// As gtest's, for processes that cannot report to it.
#define RANK_EXPECT(condition, text)                                                      \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, (text).c_str()); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

}  // namespace tutti::testing
