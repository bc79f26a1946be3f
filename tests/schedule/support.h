// Schedules for tests to look at and to spoil.
#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "lib/schedule/build.h"

namespace tutti::schedule {

using Programs = std::vector<Program>;

inline const Algorithm& allreduce(const std::string& name) {
  return *find_algorithm(Collective::allreduce, name);
}

inline Programs programs_of(const Algorithm& algorithm, uint32_t nranks, uint32_t root = 0) {
  return build_all(algorithm.emit, {.nranks = nranks, .root = root});
}

}  // namespace tutti::schedule
