// Before any rank starts: what can be known to be wrong, and what will happen.
#pragma once

#include "trainer/common/options.h"

namespace tutti::train {

// Throws BadInput for what the files, the model or the data do not allow.
void prepare(const Options& options);

// Who holds what, what is sent when, how many bytes: --dry-run.
void show_plan(const Options& options);

}  // namespace tutti::train
