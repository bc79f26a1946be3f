// Fault injection for tests: a rank dies at --die-at PLACE:STEP:RANK, sleeps at --sleep-at
// PLACE:STEP:RANK:MILLISECONDS, or finds another dead at --lose-at PLACE:STEP:RANK. Without the
// options nothing happens.
#pragma once

#include <signal.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "trainer/common/error.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

struct Fault {
  std::string place;
  int64_t step = -1;
  int rank = -1;
  int64_t milliseconds = 0;
  // `at`: PLACE:STEP:RANK[:MILLISECONDS]; empty: none.
  static Fault parsed(const std::string& at) {
    Fault fault{at.substr(0, at.find(':'))};
    const int read = std::sscanf(at.c_str() + fault.place.size(), ":%" SCNd64 ":%d:%" SCNd64,
                                 &fault.step, &fault.rank, &fault.milliseconds);
    if (!at.empty() && read < 2) throw BadInput(at + ": a fault is PLACE:STEP:RANK[:MILLISECONDS]");
    return fault;
  }
};
struct Faults {
  Fault dies, sleeps, loses;
  int64_t now = 0;  // the current step
  int self = -1;
  bool now_at(const Fault& fault, const char* at) const {
    return fault.rank == self && fault.step == now && fault.place == at;
  }
};
inline Faults& faults() {
  static Faults instance;
  return instance;
}
// `self`: this rank.
inline void arm_faults(const std::string& die_at, const std::string& sleep_at,
                       const std::string& lose_at, int self) {
  faults() = {Fault::parsed(die_at), Fault::parsed(sleep_at), Fault::parsed(lose_at), 0, self};
}
inline void fault_point(const char* place) {
  Faults& f = faults();
  if (f.now_at(f.sleeps, place)) {
    f.sleeps.rank = -1;  // once
    std::this_thread::sleep_for(std::chrono::milliseconds(f.sleeps.milliseconds));
  }
  if (f.now_at(f.dies, place)) raise(SIGKILL);
  if (f.now_at(f.loses, place)) {
    f.loses.rank = -1;  // once
    throw error(TUTTI_PEER_FAILED, -1, 0, "a test has a call fail here");
  }
}

}  // namespace tutti::train
