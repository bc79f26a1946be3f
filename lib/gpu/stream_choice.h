// How a call runs on GPUs: which algorithm, by which path. Decided only from values that are equal
// on all ranks.
#pragma once

#include <string>

#include "lib/call/call.h"
#include "lib/select/select.h"

namespace tutti {

enum class StreamPath : uint8_t { one_shot, two_shot, one_hop, lanes };

struct StreamChoice {
  const Algorithm* algorithm = nullptr;  // null: a barrier's one hop
  StreamPath path = StreamPath::one_hop;
  std::string kernel;  // name of the kernel that combines; empty: none
  bool averages = false;
  tutti_level level = TUTTI_LEVEL_FAST;  // at which it runs: fast where nothing rounds
};

// Empty where there are kernels for the call, else one sentence that says why not. `level`: what
// the ranks agree on.
std::string why_no_kernel(const CallKey& key, tutti_level level);

// UNSUPPORTED and INVALID as from choose(); UNSUPPORTED where there is no kernel.
Status choose_on_stream(const CallKey& key, const Capabilities& capabilities, tutti_level level,
                        StreamChoice* out);

// The kernel of a combination.
std::string combine_kernel(tutti_dtype dtype, tutti_op op, tutti_level level);

}  // namespace tutti
