// Checks of options' values.
#pragma once

#include <fmt/format.h>

#include "trainer/common/error.h"

namespace tutti::train {

inline void within(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most))
    throw BadInput(fmt::format("{} {}: must be from {} to {}", option, value, least, most));
}

}  // namespace tutti::train
