// Allreduce of float32 vectors that travel encoded: two-shot, so that an element is encoded twice
// whatever the number of ranks. Every rank encodes its vector in parts. The owner of a part decodes
// that part of all ranks, reduces them in rank order and encodes the result. All ranks, the owner
// too, decode that result, so all have the same bits.
#pragma once

#include "lib/sparse/compound.h"

namespace tutti::sparse {

// Collective. `input` may be `output`. `arguments` name float32, an operator that it has, and
// `codec`. `error` may be null.
Status allreduce_coded(CompoundCall& call, const Arguments& arguments, const tutti_codec& codec,
                       const float* input, float* output, tutti_codec_error* error);

}  // namespace tutti::sparse
