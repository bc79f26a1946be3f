// An Exchange over the caller's own all-gather of fixed-size blocks.
#pragma once

#include <memory>

#include "lib/control/exchange.h"
#include "tutti/tutti.h"

namespace tutti {

// Collective: rank 0 makes the job's key and passes it through the all-gather, which others must
// not be able to read. A callback that never returns cannot be interrupted: no deadline applies to
// it.
Status make_callback_exchange(tutti_allgather_fn allgather, void* context, int rank, int nranks,
                              std::unique_ptr<Exchange>* out);

}  // namespace tutti
