#include "lib/gpu/stream_choice.h"

#include "algorithms/registry.h"
#include "lib/base/types.h"

namespace tutti {

namespace {

Query query_of(const CallKey& key, uint32_t nranks, tutti_level level) {
  const Goal goal(runs_as(key.collective), nranks, uint32_t(key.root));
  Query query;
  query.nranks = nranks;
  query.count = key.count * (goal.blocks() == 1 ? 1 : uint64_t(nranks));
  query.element_size = uint32_t(dtype_size(key.dtype));
  query.root = uint32_t(key.root);
  query.level = level;
  return query;
}

// The fused path that implements the algorithm; the lanes if there is none.
StreamPath path_of(const Algorithm& algorithm, const Query& query, const Tuning& tuning) {
  const bool is_short = query.count * query.element_size <= tuning.gpu_one_shot_bytes;
  switch (algorithm.fused) {
    case Path::one_shot:
      return is_short ? StreamPath::one_shot : StreamPath::lanes;
    case Path::two_shot:
      return StreamPath::two_shot;
    case Path::one_hop:
      return StreamPath::one_hop;
    default:
      return StreamPath::lanes;
  }
}

// The first algorithm that a fused path implements; every collective has one.
const Algorithm* first_skipped(Collective collective, const Query& query, const Tuning& tuning) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    if (path_of(algorithm, query, tuning) != StreamPath::lanes) return &algorithm;
  }
  return nullptr;
}

}  // namespace

std::string why_no_kernel(const CallKey& key, tutti_level level) {
  if (key.collective == Collective::barrier) return {};
  if (key.lengths != 0) return "there is no kernel for blocks with lengths of their own";
  if (unsigned(key.dtype) >= TUTTI_DTYPE_COUNT) {
    return "there is no kernel for the program's own types";
  }
  if (dtype_is_binned(key.dtype)) return "there is no kernel for accumulators";
  if (!reduces(key.collective)) return {};
  if (unsigned(key.op) >= TUTTI_OP_COUNT) {
    return "there is no kernel for the program's own operators and pre-multiplied sums";
  }
  if (level == TUTTI_LEVEL_EXACT && op_rounds(key.op, key.dtype)) {
    return "there is no kernel for the level exact";
  }
  return {};
}

std::string combine_kernel(tutti_dtype dtype, tutti_op op, tutti_level level) {
  const bool tree = level == TUTTI_LEVEL_CANONICAL && op_rounds(op, dtype);
  return std::string("tutti_combine_") + dtype_name(dtype) + "_" +
         op_name(op == TUTTI_AVG ? TUTTI_SUM : op) + (tree ? "_canonical" : "");
}

Status choose_on_stream(const CallKey& key, const Capabilities& capabilities, tutti_level level,
                        StreamChoice* out) {
  if (const std::string why = why_no_kernel(key, level); !why.empty()) {
    return {TUTTI_UNSUPPORTED, why};
  }
  *out = {};
  const bool barrier = key.collective == Collective::barrier;
  const Collective collective = runs_as(key.collective);
  if (reduces(key.collective) && !barrier) {
    out->level = op_rounds(key.op, key.dtype) ? level : TUTTI_LEVEL_FAST;
    out->kernel = combine_kernel(key.dtype, key.op, out->level);
    out->averages = key.op == TUTTI_AVG;
  }
  if (barrier) out->kernel = combine_kernel(key.dtype, key.op, TUTTI_LEVEL_FAST);
  const Query query = query_of(key, capabilities.nranks, out->level);
  if (key.algorithm.empty() && !key.unfused) {
    // Fused paths fold all operands in one place, so they keep every level that has kernels.
    if (barrier) return {};
    out->algorithm = first_skipped(collective, query, capabilities.tuning);
    out->path = path_of(*out->algorithm, query, capabilities.tuning);
    return {};
  }
  Choice choice;
  TUTTI_TRY(choose(collective, capabilities, query, key.algorithm, key.unfused, &choice));
  out->algorithm = choice.algorithm;
  out->path = key.unfused || barrier ? StreamPath::lanes
                                     : path_of(*choice.algorithm, query, capabilities.tuning);
  return {};
}

}  // namespace tutti
