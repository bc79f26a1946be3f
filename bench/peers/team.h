// The running ranks of one contender, as the controller sees them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "bench/live.h"
#include "bench/peers/contenders.h"
#include "bench/peers/protocol.h"

namespace tutti::bench {

using Deadline = std::chrono::steady_clock::time_point;

// Where ranks connect: an abstract Unix socket that only this user's processes may use.
class Meeting {
 public:
  Meeting();
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  const std::string& name() const { return name_; }
  // The next rank's connection and its first message; -1 if none connected within 100 ms.
  int accept(PeerHello* hello) const;

 private:
  std::string name_;
  int fd_;
};

class Team {
 public:
  // `patience`: how long a rank may take to answer one order.
  Team(const Contender& contender, int nranks, std::chrono::milliseconds patience);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void start();
  void join(int fd, const PeerHello& hello);
  // Whether all ranks have connected, or one has ended before that (which fails the team).
  bool settled();

  // Each false if the team has failed, now or before; failure() says why.
  bool prepare(size_t bytes);
  bool check(uint64_t* wrong);
  // Times of whole batches, us; the slowest rank's.
  bool run(uint64_t warm_calls, uint64_t calls, uint64_t batches, Data data,
           std::vector<double>* us);

  bool alive() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  // Ends the team's remaining processes.
  void fail(const std::string& why);

  const Contender& contender() const { return contender_; }
  std::string version() const;
  // CPUs that each rank may run on: "0 | 1".
  std::string binding() const;

 private:
  struct Member {
    int fd = -1;
    PeerHello hello;
  };
  bool order(const PeerOrder& order, std::vector<PeerReply>* replies,
             std::vector<std::vector<double>>* batches);
  bool read_from(Member& member, void* data, size_t bytes, Deadline deadline);
  void spawn(const Commandline& command);
  bool process_ended();
  std::string last_words() const;
  void kill_all();

  Contender contender_;
  std::chrono::milliseconds patience_;
  std::vector<Member> members_;
  std::vector<pid_t> processes_;
  int log_ = -1;   // what its processes print
  int gate_ = -1;  // memory in which its ranks meet
  std::string failure_;
};

}  // namespace tutti::bench
