// Whether a schedule only moves data, so that its executor need not touch a byte.
#pragma once

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// Whether no rank combines, copies or stages anything: it sends only its input or what it gets, and
// receives only what it gets. For calls of this shape; shape.rank is ignored.
bool copy_only(const Algorithm& algorithm, Shape shape);

}  // namespace tutti::schedule
