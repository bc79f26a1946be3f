// What asynchronous servers have in common.
#pragma once

#include <vector>

#include "trainer/sync/ways.h"

namespace tutti::train {

std::vector<WayOption> asynchronous_options();
void check_asynchronous(const Options& options);
// Every gradient is applied when it arrives, and no worker waits for another.
ServerRule asynchronous_rule(const Options& options);

}  // namespace tutti::train
