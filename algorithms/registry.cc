#include "algorithms/registry.h"

#include "algorithms/list.h"

namespace tutti {

std::span<const Algorithm> algorithms() {
#define TUTTI_ENTRY(function) function(),
  static const Algorithm all[] = {TUTTI_ALGORITHMS(TUTTI_ENTRY)};
#undef TUTTI_ENTRY
  return all;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti
