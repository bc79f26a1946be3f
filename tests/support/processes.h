// Communicators whose ranks are processes, forked by the test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/pass_id.h"
#include "tutti/tutti.h"

namespace tutti::testing {

// What a rank reports to the test through its pipe when it is done.
struct Report {
  int status = -1;
  int rank = -1;
  uint64_t call = 0;
  uint64_t ended_ns = 0;
  char text[700] = {};
};

// With the last error of `comm`.
inline Report report_of(tutti_status status, tutti_comm comm) {
  Report report;
  report.status = status;
  tutti_error error{};
  tutti_comm_last_error(comm, &error);
  report.rank = error.rank;
  report.call = error.call;
  snprintf(report.text, sizeof(report.text), "%s", error.text);
  return report;
}

struct Child {
  pid_t pid;
  int pipe;
};

// Counts the ranks that have arrived, in memory that processes share.
class Meeting {
 public:
  Meeting()
      : there_(static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(*there_), PROT_READ | PROT_WRITE,
                                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  void arrive() const { there_->fetch_add(1); }
  void wait_for(int ranks) const {
    const uint64_t deadline_ns = deadline_after_ms(30'000);
    while (there_->load() < ranks && now_ns() < deadline_ns) usleep(1000);
    EXPECT_GE(there_->load(), ranks);
  }

 private:
  std::atomic<int>* there_;
};

// What may be unusual about how ranks join.
struct Joining {
  // What a rank does before it makes the communicator.
  std::function<void(int)> before = [](int) {};
  int64_t setup_ms = 20'000;
};

struct RankPlace {
  int rank, nranks;
  const char* transport;  // null: the library chooses
  const char* interface;  // likewise
  const int (&ids)[2];    // a pipe, through which rank 0 passes on the id that it makes
  int told;               // a pipe, for its report
};

// The life of a rank's process: it joins the communicator and runs `body`.
[[noreturn]] inline void be_rank(const RankPlace& place, const Meeting& joined,
                                 const std::function<Report(int, tutti_comm)>& body,
                                 const Joining& joining = {}) {
  const tutti_unique_id id = pass_id(place.rank, place.nranks, place.ids, place.interface);
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = place.transport;
  config.setup_ms = joining.setup_ms;
  tutti_comm comm = nullptr;
  Report report;
  joining.before(place.rank);
  report.status = tutti_comm_create_from_id(&id, place.rank, place.nranks, &config, &comm);
  joined.arrive();
  if (report.status == TUTTI_OK) {
    report = body(place.rank, comm);
  } else {
    snprintf(report.text, sizeof(report.text), "%s", tutti_last_error());
  }
  report.ended_ns = now_ns();
  if (write(place.told, &report, sizeof(report)) != ssize_t(sizeof(report))) _exit(93);
  tutti_comm_free(comm);
  _exit(0);
}

// Forks `nranks` processes that join one communicator and run `body`; returns when all have joined.
// `transport` null: the library chooses.
inline std::vector<Child> start(int nranks, const char* transport,
                                const std::function<Report(int, tutti_comm)>& body,
                                const Joining& joining = {}) {
  int ids[2];
  EXPECT_EQ(pipe(ids), 0);
  const Meeting joined;
  std::vector<Child> children;
  for (int rank = 0; rank < nranks; ++rank) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      be_rank({rank, nranks, transport, nullptr, ids, fds[1]}, joined, body, joining);
    }
    close(fds[1]);
    children.push_back({pid, fds[0]});
  }
  close(ids[0]);
  close(ids[1]);
  joined.wait_for(nranks);
  return children;
}

// The rank's report; false if it died without one.
inline bool finish(const Child& child, Report* report) {
  const bool told = read(child.pipe, report, sizeof(*report)) == ssize_t(sizeof(*report));
  close(child.pipe);
  int status = 0;
  waitpid(child.pid, &status, 0);
  return told;
}

// Kills one of the ranks and expects no report from it, and from the others, in bounded time, an
// error that names it.
inline void kill_and_expect_it_named(const std::vector<Child>& children, int killed,
                                     uint64_t within_ns) {
  const uint64_t killed_ns = now_ns();
  kill(children[size_t(killed)].pid, SIGKILL);
  for (int rank = 0; rank < int(children.size()); ++rank) {
    Report report;
    const bool told = finish(children[size_t(rank)], &report);
    EXPECT_EQ(told, rank != killed) << "rank " << rank << ": " << report.text;
    if (!told || rank == killed) continue;
    EXPECT_EQ(report.status, TUTTI_PEER_FAILED) << report.text;
    EXPECT_EQ(report.rank, killed) << report.text;
    EXPECT_NE(std::string(report.text).find("rank " + std::to_string(killed)), std::string::npos)
        << report.text;
    EXPECT_LT(report.ended_ns - killed_ns, within_ns) << report.text;
  }
}

}  // namespace tutti::testing
