// Before any rank starts: checks of the input, and the plan of the run.
#pragma once

#include "trainer/common/options.h"

namespace tutti::train {

// Throws BadInput if the files, the model or the data do not allow these options.
void prepare(const Options& options);

// --dry-run: what each rank holds, which messages are sent when, and their bytes.
void show_plan(const Options& options);

}  // namespace tutti::train
