// The algorithms there are.
#pragma once

#include <span>
#include <string_view>

#include "lib/schedule/algorithm.h"

namespace tutti {

// Every algorithm, in the order of list.h.
std::span<const Algorithm> algorithms();
// nullptr if there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
