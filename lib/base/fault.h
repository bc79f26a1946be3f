// A failure on purpose, so that a program can be tried against it: TUTTI_FAULT, `tutti run
// --fault`.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "lib/base/status.h"

namespace tutti {

struct Fault {
  uint64_t call = std::numeric_limits<uint64_t>::max();  // before which call of a communicator
  int signal = 0;                                        // that this process then gets
};

// Of "kill at call 100" or "stop at call 100"; calls are numbered from 1. INVALID for anything
// else.
Status parse_fault(const std::string& text, Fault* out);

// Gives this process its signal.
void strike(const Fault& fault);

}  // namespace tutti
