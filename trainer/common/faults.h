// Where tests let a rank die: --die-at PLACE:STEP:RANK. Nothing otherwise.
#pragma once

#include <signal.h>

#include <cstdint>
#include <string>

namespace tutti::train {

struct Faults {
  std::string place;
  int64_t step = -1;
  int rank = -1;
  int64_t now = 0;  // the step that runs
  int self = -1;
};
inline Faults& faults() {
  static Faults instance;
  return instance;
}
inline void may_die(const char* place) {
  const Faults& f = faults();
  if (f.rank == f.self && f.step == f.now && f.place == place) raise(SIGKILL);
}

}  // namespace tutti::train
