// Schedules as text, one line a step; print and parse are inverse.
//
//   rank 1 of 4, 4 chunks, 0 scratch rows
//   send 2 output[1:2)
//   send 2 output[3:4) joined
//   recv_reduce 0 left output[0:1)
//   reduce output[3:4) left scratch[7:8)
//   copy output[0:1) input[0:1)
//
// In reduce and recv_reduce the side is that of the incoming operand. A joined step continues the
// message before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/schedule/build.h"

namespace tutti::schedule {

std::string print(const Step& step);
std::string print(const Program& program);
std::string print(const std::vector<Program>& programs);

// One program, or those of all ranks by rank. INVALID with the line and what was expected there.
// Safe on any bytes; texts of more than 2^20 steps, and numbers beyond 2^24, are refused. Empty
// lines and lines that begin with # are left out. Whether the steps make sense is the prover's
// business.
Status parse(std::string_view text, Program* out);
Status parse(std::string_view text, std::vector<Program>* out);

}  // namespace tutti::schedule
