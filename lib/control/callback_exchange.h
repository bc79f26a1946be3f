// An Exchange over the caller's own all-gather of fixed-size blocks.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/control/exchange.h"
#include "tutti/tutti.h"

namespace tutti {

// Of what a rank says, the first call carries the length, in 4 bytes, and all of it where every
// rank's fits into the rest; else a second one carries as many bytes as the longest has.
constexpr size_t callback_block_bytes = 512;

// Collective: rank 0 makes the job's key and passes it through the all-gather, which others must
// not be able to read. A callback that never returns cannot be interrupted: no deadline applies to
// it.
Status make_callback_exchange(tutti_allgather_fn allgather, void* context, int rank, int nranks,
                              std::unique_ptr<Exchange>* out);

}  // namespace tutti
