// What asynchronous servers have in common.
#pragma once

#include <vector>

#include "trainer/sync/ways.h"

namespace tutti::train {

std::vector<WayOption> asynchronous_options();
void check_asynchronous(const Options& options);
// Every gradient is an update when it comes, and no worker waits for another one.
ServerRule asynchronous_rule(const Options& options);

}  // namespace tutti::train
