// Communicators whose ranks are on hosts of their own: processes in network namespaces that a
// switch joins, a bridge in a namespace of its own. Their cables can be cut. Nothing of it outlives
// the processes.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cstdlib>

#include "tests/support/processes.h"

namespace tutti::testing {

class Hosts {
 public:
  // Why none can be made here; empty: they can.
  static std::string obstacle() {
    if (geteuid() != 0) return "network namespaces need root";
    if (!run("ip -V")) return "network namespaces need the program ip";
    const pid_t probe = fork();
    if (probe == 0) {
      const bool made = unshare(CLONE_NEWNET) == 0 && run("ip link add sw type bridge") &&
                        run("ip link add p0 type veth peer name tt0");
      _exit(made ? 0 : 1);
    }
    int status = 0;
    waitpid(probe, &status, 0);
    return status == 0 ? "" : "no network namespace with a bridge can be made here";
  }

  // `body` on every rank; returns when all have joined one communicator, before which each makes
  // ready.
  Hosts(
      int nranks, const char* transport, const std::function<Report(int, tutti_comm)>& body,
      const std::function<void(int)>& make_ready = [](int) {}) {
    const Meeting apart, wired, joined;
    EXPECT_EQ(pipe(ids_), 0);
    switch_ = fork();
    if (switch_ == 0) {
      leave_with_parent();
      if (unshare(CLONE_NEWNET) != 0) _exit(1);
      apart.arrive();
      for (;;) pause();
    }
    for (int rank = 0; rank < nranks; ++rank) {
      int told[2];
      EXPECT_EQ(pipe(told), 0);
      const pid_t process = fork();
      if (process == 0) {
        leave_with_parent();
        close(told[0]);
        if (unshare(CLONE_NEWNET) != 0) _exit(1);
        apart.arrive();
        wired.wait_for(1);
        make_ready(rank);
        be_rank({rank, nranks, transport, "tt0", ids_, told[1]}, joined, body);
      }
      close(told[1]);
      ranks_.push_back({process, told[0]});
    }
    apart.wait_for(nranks + 1);
    EXPECT_TRUE(wire());
    wired.arrive();
    joined.wait_for(nranks);
  }
  ~Hosts() {
    for (const Child& one : ranks_) {
      if (one.pid == 0) continue;
      kill(one.pid, SIGKILL);
      close(one.pipe);
      waitpid(one.pid, nullptr, 0);
    }
    kill(switch_, SIGKILL);
    waitpid(switch_, nullptr, 0);
    close(ids_[0]);
    close(ids_[1]);
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int nranks() const { return int(ranks_.size()); }
  pid_t process(int rank) const { return ranks_[size_t(rank)].pid; }
  // What it reports in the end; false if it ended without a report.
  bool finish(int rank, Report* report) {
    const Child child = ranks_[size_t(rank)];
    ranks_[size_t(rank)].pid = 0;
    return testing::finish(child, report);
  }

  static std::string address(int rank) { return "10.199.8." + std::to_string(rank + 1); }

  // The cable is pulled out, which both ends see.
  bool unplug(int rank) { return on_switch("ip link set p" + std::to_string(rank) + " down"); }
  // The switch forwards nothing to it and from it any more; no end sees that.
  bool lose(int rank) { return on_switch("ip link set p" + std::to_string(rank) + " nomaster"); }
  // Takes that back.
  bool find(int rank) { return on_switch("ip link set p" + std::to_string(rank) + " master sw"); }
  // What `from` sends to `to` does not arrive: it goes to an address that nobody has.
  bool block(int from, int to) {
    return at(process(from), "ip neigh replace " + address(to) +
                                 " lladdr 02:00:00:00:00:99 dev tt0 nud permanent");
  }
  // Takes that back.
  bool unblock(int from, int to) {
    return at(process(from), "ip neigh del " + address(to) + " dev tt0");
  }
  // What it sends is lost.
  bool mute(int rank) {
    bool done = true;
    for (int other = 0; other < nranks(); ++other)
      if (other != rank) done = block(rank, other) && done;
    return done;
  }
  // What is sent to it is lost.
  bool deafen(int rank) {
    bool done = true;
    for (int other = 0; other < nranks(); ++other)
      if (other != rank) done = block(other, rank) && done;
    return done;
  }

 private:
  static bool run(const std::string& command) {
    return system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  static void leave_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

  // In the network namespace of a process.
  static bool at(pid_t process, const std::string& command) {
    const pid_t child = fork();
    if (child == 0) {
      const int place = open(("/proc/" + std::to_string(process) + "/ns/net").c_str(), O_RDONLY);
      _exit(place >= 0 && setns(place, CLONE_NEWNET) == 0 && run(command) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0;
  }
  bool on_switch(const std::string& command) const { return at(switch_, command); }

  bool wire() const {
    std::string command = "ip link add sw type bridge && ip link set sw up";
    for (int rank = 0; rank < nranks(); ++rank) {
      const std::string port = "p" + std::to_string(rank);
      command += " && ip link add " + port + " type veth peer name tt0 netns " +
                 std::to_string(process(rank)) + " && ip link set " + port + " master sw up";
    }
    bool done = on_switch(command);
    for (int rank = 0; done && rank < nranks(); ++rank) {
      done = at(process(rank), "ip addr add " + address(rank) +
                                   "/24 dev tt0 && ip link set tt0 up && ip link set lo up");
    }
    return done;
  }

  int ids_[2] = {-1, -1};
  pid_t switch_ = -1;
  std::vector<Child> ranks_;
};

}  // namespace tutti::testing
