// Which algorithm runs a call: eligibility first, then speed by a model with measured constants.
// Decided only from values that are equal on all ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/schedule/algorithm.h"
#include "lib/tuning/tuning.h"

namespace tutti {

// What a communicator can do, equal on all its ranks.
struct Capabilities {
  uint32_t nranks = 1;
  bool all_share_memory = false;  // protocols of lib/shared_memory can run
  bool checks_memory = false;     // all share memory, but calls go by schedules over checked slots
  bool in_memory() const { return all_share_memory || checks_memory; }
  bool copy_only = false;  // only the link may touch the ranks' inputs and outputs
  bool across_hosts = false;
  double ranks_per_core = 1;  // the most of any host; at least 1
  bool crowded() const { return ranks_per_core > 1; }
  size_t staged_limit_bytes = 0;  // up to here one-shot always stages and never goes direct
  size_t one_shot_limit_bytes = 0;
  size_t two_level_limit_bytes = 0;
  size_t one_hop_element_limit_bytes = 0;
  // Ranks that share a last-level cache, where ranks fall into such groups in order; else nranks.
  uint32_t cache_group = 1;
  Tuning tuning;
};

// The fields that describe the medium: what short calls mostly consist of (a hop; where ranks share
// the cores of one host a context switch, over sockets a piece of a message), how fast bytes move,
// and how fast they are reduced.
struct MediumFields {
  Field short_us, gb_s, reduce_gb_s;
};
MediumFields medium_fields(const Capabilities& capabilities);

// Of a call with root 0, of a vector or a block of `count` elements, a power of two.
Query plain_query(Collective collective, uint32_t nranks, uint64_t count, uint32_t element_size);

// The counts for which choose() gives the same as for `count` if all else is equal.
Counts decided_alike(uint64_t count, uint32_t element_size, const Capabilities& capabilities);

// The size of two-level's groups: of ranks that share a last-level cache; 2 where that is unknown.
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

  // Whether a fused protocol runs instead of the schedule.
  bool fused() const { return path != Path::schedule; }
};

// An algorithm, and how it goes.
struct Route {
  const Algorithm* algorithm = nullptr;
  Path path = Path::schedule;
  double predicted_us = 0;
};

// `forced`: a name, or empty. UNSUPPORTED, with the reason, when that algorithm cannot serve the
// call; INVALID, with the names that there are, when there is no such algorithm. `unfused`:
// schedules only.
Status choose(Collective collective, const Capabilities& capabilities, const Query& query,
              std::string_view forced, bool unfused, Choice* out);

// The ways to serve that query with the bits of `choice`, which choose() has made, and at a cost
// that the model finds less than three times its: `choice` itself; where ranks share memory the
// fused ones and of the schedules the best, which a call whose ranks do not all hear from each
// other has whatever it costs; else all schedules, the best first.
std::vector<Route> same_bits(const Choice& choice, const Capabilities& capabilities,
                             const Query& query, std::string_view forced);

}  // namespace tutti
