// Every algorithm, each defined in the file of its name. Adding one: its file, a line here and one in
// registry.cc's table.
#pragma once

#include "algorithms/algorithm.h"

namespace tutti {

extern const Algorithm master_worker, all_to_all, two_shot, round_robin, tree, butterfly,
    halving_doubling, ring, binomial_broadcast;

// For algorithms without conditions.
inline std::string serves_everything(const Request&) { return {}; }

}  // namespace tutti
