// Whether a schedule only moves data, so that who runs it need not touch a byte.
#pragma once

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// Whether no rank combines, copies or keeps on its way what is not its own: all that is sent is
// its input or what it gets, all that comes is what it gets. For calls of this shape; shape.rank is
// ignored.
bool copy_only(const Algorithm& algorithm, Shape shape);

}  // namespace tutti::schedule
