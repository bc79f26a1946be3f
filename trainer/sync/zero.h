// ZeRO stage 1: allreduce with --zero 1.
#pragma once

#include <memory>

#include "trainer/sync/strategy.h"

namespace tutti::train {

std::unique_ptr<Strategy> make_zero(const Worker& worker);

}  // namespace tutti::train
