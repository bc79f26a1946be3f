// Which algorithm runs a call: eligibility first, then speed by a model with measured constants.
// Decided only from values that are equal on all ranks.
#pragma once

#include <bit>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/schedule/algorithm.h"

namespace tutti {

// What a communicator can do, equal on all its ranks.
struct Capabilities {
  uint32_t nranks = 1;
  bool all_share_memory = false;    // protocols of lib/shared_memory can run
  bool copy_only = false;           // nobody but the link may touch what the ranks have and get
  bool crowded = false;             // more ranks than cores on some host
  size_t one_shot_limit_bytes = 0;  // of those protocols
  size_t two_level_limit_bytes = 0;
  size_t one_hop_element_limit_bytes = 0;
  // Ranks that share a last-level cache, where ranks fall into such groups in order; else nranks.
  uint32_t cache_group = 1;
};

// Counts of elements fall into classes, each up to a power of two, so that calls of one class can
// be decided alike: by the model for the largest of them.
constexpr uint32_t size_class(uint64_t count) {
  return count == 0 ? 0 : uint32_t(std::bit_width(count - 1));
}
constexpr uint64_t largest_of_class(uint64_t count) {
  const uint32_t order = size_class(count);
  return order > 63 ? ~uint64_t{0} : uint64_t{1} << order;
}
// Counts, of a vector or a block, for which choose() says the same if all else is equal.
struct Counts {
  uint64_t least = 0, most = 0;
};
Counts decided_alike(uint64_t count, uint32_t element_size, const Capabilities& capabilities);

// The size of two-level's groups: those that share a cache, pairs where nobody knows.
inline uint32_t group_size(const Capabilities& capabilities) {
  return capabilities.cache_group > 1 && capabilities.cache_group < capabilities.nranks
             ? capabilities.cache_group
             : 2;
}

struct Choice {
  const Algorithm* algorithm = nullptr;
  Path path = Path::schedule;
  std::string reason;       // one sentence
  double predicted_us = 0;  // of the largest call of the size class
  const Algorithm* runner_up = nullptr;
  double runner_up_us = 0;

  // Not by its schedule.
  bool fused() const { return path != Path::schedule; }
};

// `forced`: a name, or empty. UNSUPPORTED when it does not apply, INVALID when there is no such
// algorithm; both say what there is. `unfused`: schedules only.
Status choose(Collective collective, const Capabilities& capabilities, const Query& query,
              std::string_view forced, bool unfused, Choice* out);

}  // namespace tutti
