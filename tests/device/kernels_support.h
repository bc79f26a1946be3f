// Ranks whose boards are memory of this process, and kernels that run on them at once, on the host.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/types.h"
#include "lib/device/abi.h"
#include "lib/device/driver.h"
#include "lib/device/kernels/host.h"
#include "lib/reduce/reduce.h"

namespace tutti::device {

struct Ranks {
  explicit Ranks(uint32_t n) : boards(n), reports(n) {}

  // What a kernel of rank `self` is told; nobody is to be checked or told.
  Common common(uint32_t self) {
    Common common{};
    common.own = &boards[self];
    for (size_t r = 0; r < boards.size(); ++r) common.boards[r] = &boards[r];
    common.report = &reports[self];
    common.entry.digest = 77;
    common.self = self;
    return common;
  }
  uint32_t& flag(uint32_t rank, Flag flag, uint32_t from) {
    return boards[rank].flags[flag][from].value;
  }

  std::vector<Board> boards;
  std::vector<Report> reports;
};

inline Spot at(const void* address) { return {address_of(address), 0, 0, 0}; }

inline std::string kernel_name(tutti_dtype dtype, tutti_op op, bool canonical) {
  const tutti_op stored = op == TUTTI_AVG ? TUTTI_SUM : op;  // with a divisor
  return std::string("tutti_combine_") + dtype_name(dtype) + "_" + op_name(stored) +
         (canonical ? "_canonical" : "");
}

}  // namespace tutti::device
