// Ranks over tcp for tests: as threads, as processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/control/bootstrap.h"
#include "tests/support/links.h"
#include "transports/registry.h"

namespace tutti::testing {

// All pairs over tcp.
inline Status open_all(Exchange& exchange, uint64_t comm_id, std::unique_ptr<Link>* out,
                       const std::string& interface = "", int64_t limit_ms = 20'000) {
  std::vector<uint8_t> peers(size_t(exchange.nranks()), 1);
  peers[size_t(exchange.rank())] = 0;
  const LinkSetup setup{&exchange, comm_id, peers, interface, deadline_after_ms(limit_ms)};
  return tcp_transport.open(setup, out);
}

// Runs body(rank, link) on threads that are joined by tcp.
inline void on_links(int nranks, const std::function<void(int, Link&)>& body) {
  on_linked_threads(nranks, tcp_transport.open, [&](int rank, Link& link, Exchange& exchange) {
    body(rank, link);
    leave_together(exchange);
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
