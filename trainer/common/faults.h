// Fault injection for tests: a rank dies at --die-at PLACE:STEP:RANK. Without the option nothing
// happens.
#pragma once

#include <signal.h>

#include <cstdint>
#include <string>

namespace tutti::train {

struct Faults {
  std::string place;
  int64_t step = -1;
  int rank = -1;
  int64_t now = 0;  // the current step
  int self = -1;
};
inline Faults& faults() {
  static Faults instance;
  return instance;
}
// `at`: PLACE:STEP:RANK; `self`: this rank.
inline void arm_faults(const std::string& at, int self) {
  const size_t first = at.find(':');
  const size_t second = at.find(':', first + 1);
  if (at.empty() || second == std::string::npos) return;
  faults() = {at.substr(0, first), std::stoll(at.substr(first + 1)),
              std::stoi(at.substr(second + 1)), 0, self};
}
inline void may_die(const char* place) {
  const Faults& f = faults();
  if (f.rank == f.self && f.step == f.now && f.place == place) raise(SIGKILL);
}

}  // namespace tutti::train
