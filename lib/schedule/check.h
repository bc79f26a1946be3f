// Checks of one rank's program by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/schedule/build.h"
#include "lib/schedule/goal.h"

namespace tutti::schedule {

struct Fault {
  uint32_t step = 0;  // from 0
  std::string cause;  // ends a sentence that begins with rank and step
};

// A step whose ranges, peer or operands are invalid. The other checks need programs without any.
std::optional<Fault> misshapen_step(const Program& program);

// A step that reads scratch, or output where the rank has no input, that no earlier step wrote.
std::optional<Fault> undefined_read(const Program& program, const Goal& goal);

// A step that reads input where an earlier step wrote output: in place they are the same memory.
std::optional<Fault> overwritten_input(const Program& program);

}  // namespace tutti::schedule
