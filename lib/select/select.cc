#include "lib/select/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/registry.h"
#include "lib/base/cache.h"
#include "lib/base/types.h"
#include "lib/schedule/formula.h"
#include "lib/schedule/levels.h"
#include "lib/schedule/moves.h"
#include "lib/schedule/work.h"

namespace tutti {

namespace {

// What one hop and one byte cost, in microseconds.
struct Medium {
  double hop;           // a message, send to receipt
  double byte;          // streamed through a slot or a socket
  double reduced_byte;  // added to a vector in cache
  // Where ranks share cores.
  double shared_hop;  // a round
  double piece;       // of a core's time, each piece of a message
};

// Of a rate in GB/s.
double us_per_byte(double gb_s) { return 1 / (1000 * gb_s); }

Medium medium_of(const Capabilities& capabilities) {
  const Tuning& tuning = capabilities.tuning;
  const bool in_memory = capabilities.in_memory(), across = capabilities.across_hosts;
  const double hop = in_memory ? tuning.memory_hop_us : tuning.socket_hop_us;
  // On one host a core goes from rank to rank, and nobody has to be woken up. Between hosts a hop,
  // which is measured from send to receipt, holds what each piece takes.
  return {hop, us_per_byte(in_memory ? tuning.memory_slot_gb_s : tuning.socket_gb_s),
          us_per_byte(in_memory ? tuning.memory_reduce_gb_s : tuning.socket_reduce_gb_s),
          across ? hop : capabilities.ranks_per_core * tuning.context_switch_us,
          across || in_memory ? 0 : tuning.socket_piece_us};
}

// How much of the time is as where ranks share cores: all from 1.5 ranks a core on, which is the
// least that was measured.
double share_of_cores(const Capabilities& capabilities) {
  return std::clamp(2 * (capabilities.ranks_per_core - 1), 0.0, 1.0);
}

// One of an algorithm's claims for this many ranks; the tests compare them with the prover's
// counts.
double claimed(const char* formula, uint32_t nranks) {
  schedule::Rational value;
  return schedule::evaluate(formula, nranks, &value).ok() ? value.value() : nranks;
}

struct Candidate {
  const Algorithm* algorithm;
  Path path;
  double us;
};

// How many vectors, or whole buffers of blocks, the busiest rank writes and reads in a one-hop
// call: each is written once by the rank that has it, and read once by each rank that takes it.
double moved_by_one_hop(Collective collective, double p) {
  const double others = (p - 1) / p;
  const bool blocks_in = input_has_blocks(collective), blocks_out = output_has_blocks(collective);
  if (!blocks_in && !blocks_out) return reduces(collective) ? 1 + p : 2;
  if (is_rooted(collective)) return others;
  return blocks_in ? 2 * others : 1;
}

// The same of all ranks on average.
double average_of_one_hop(Collective collective, double p) {
  if (input_has_blocks(collective) || output_has_blocks(collective))
    return moved_by_one_hop(collective, p) * (is_rooted(collective) ? 2 / p : 1);
  if (!reduces(collective)) return 1;
  return is_rooted(collective) ? 2 - 1 / p : (1 + p) / 2 + 1 - 1 / p;
}

// What a fused protocol takes.
struct FusedCost {
  double hops;
  double busiest;    // how many vectors the busiest rank writes and reads,
  double average;    // and a rank on average
  double far_lines;  // transfers from another last-level cache
};

FusedCost fused_cost(const Algorithm& algorithm, Path path, const Capabilities& capabilities) {
  const Tuning& tuning = capabilities.tuning;
  const double p = capabilities.nranks, group = group_size(capabilities);
  const double far = p - capabilities.cache_group;
  // Fused paths have no records to step through. One-shot writes a vector and reads p-1 others;
  // two-shot moves as many vectors whatever p is.
  switch (path) {
    case Path::two_level: {
      const double groups = std::ceil(p / group);
      return {tuning.two_level_hops, group + groups, group + groups, groups - 1};
    }
    case Path::two_shot:
      return {tuning.two_shot_hops, tuning.two_shot_vectors, 3 - 1 / p, 2 * far};
    case Path::sliced_one_shot:
      return {tuning.sliced_one_shot_hops, p, p, far};
    case Path::one_hop:
      return {tuning.one_hop_hops, moved_by_one_hop(algorithm.collective, p),
              average_of_one_hop(algorithm.collective, p), far};
    case Path::one_shot:
    case Path::one_shot_or_direct:
    case Path::schedule:
      break;
  }
  return {tuning.one_shot_hops, p, p, far};
}

// Where ranks share cores a call takes no less than the longest chain of transfers, than the work
// of the busiest rank, and than all work divided by the cores. `us`: what work takes.
template <class TimeOf>
double time_of_work(const Algorithm& algorithm, const Capabilities& capabilities, TimeOf&& us) {
  const schedule::WorkOfAll& work = schedule::work_of(
      algorithm, {.nranks = capabilities.nranks, .radix = group_size(capabilities)});
  return std::max({us(work.span), us(work.busiest), capabilities.ranks_per_core * us(work.mean)});
}

// `exact_byte`: what a byte takes that is added without rounding, in addition.
double predict_fused(const Algorithm& algorithm, Path path, const Capabilities& capabilities,
                     double bytes, double exact_byte) {
  const Tuning& tuning = capabilities.tuning;
  const Medium medium = medium_of(capabilities);
  const FusedCost cost = fused_cost(algorithm, path, capabilities);
  const double byte = us_per_byte(tuning.fused_gb_s), far = cost.far_lines * tuning.far_line_us;
  const double added = claimed(algorithm.claims.reduced, capabilities.nranks) * exact_byte;
  const double alone = medium.hop * cost.hops + bytes * (cost.busiest * byte + added) + far;
  if (!capabilities.crowded()) return alone;
  const double load = capabilities.ranks_per_core;
  const double shared =
      medium.shared_hop * cost.hops +
      bytes * (std::max(cost.busiest, load * cost.average) * byte + load * added) + far;
  return alone + share_of_cores(capabilities) * (shared - alone);
}

double predict_schedule(const Algorithm& algorithm, const Capabilities& capabilities, double bytes,
                        double exact_byte) {
  const Medium medium = medium_of(capabilities);
  const Claims& claims = algorithm.claims;
  const double rounds = claimed(claims.rounds, capabilities.nranks),
               added_byte = medium.reduced_byte + exact_byte;
  const double alone =
      rounds * medium.hop + bytes * (claimed(claims.sent, capabilities.nranks) * medium.byte +
                                     claimed(claims.reduced, capabilities.nranks) * added_byte);
  if (!capabilities.crowded()) return alone;
  const double shared = rounds * medium.shared_hop +
                        time_of_work(algorithm, capabilities, [&](const schedule::Work& work) {
                          return work.pieces * medium.piece +
                                 bytes * (work.moved * medium.byte + work.reduced * added_byte);
                        });
  return alone + share_of_cores(capabilities) * (shared - alone);
}

double predict(const Algorithm& algorithm, Path path, const Capabilities& capabilities,
               const Query& query) {
  const uint64_t count = query.class_count != 0 ? query.class_count : query.count;
  const double bytes = double(count) * query.element_size;
  // Two operands are added exactly by any addition.
  const double exact_byte = query.level == TUTTI_LEVEL_EXACT && capabilities.nranks > 2
                                ? us_per_byte(capabilities.tuning.exact_gb_s)
                                : 0;
  return path == Path::schedule ? predict_schedule(algorithm, capabilities, bytes, exact_byte)
                                : predict_fused(algorithm, path, capabilities, bytes, exact_byte);
}

// How `algorithm` runs here: fused where a fused path implements it.
Path path_of(const Algorithm& algorithm, const Capabilities& capabilities, const Query& query,
             bool unfused) {
  if (unfused || !capabilities.all_share_memory) return Path::schedule;
  const uint64_t bytes = query.count * query.element_size;
  // The fused paths of allreduces cut vectors at cache lines.
  const bool lines_hold_whole_elements = line_bytes % query.element_size == 0;
  const auto fused_if = [&](bool serves) { return serves ? algorithm.fused : Path::schedule; };
  switch (algorithm.fused) {
    case Path::one_hop:
      return fused_if(!query.uneven &&
                      query.element_size <= capabilities.one_hop_element_limit_bytes);
    case Path::one_shot:
      if (!lines_hold_whole_elements) return Path::schedule;
      if (bytes > capabilities.one_shot_limit_bytes) return Path::sliced_one_shot;
      return bytes <= capabilities.staged_limit_bytes ? Path::one_shot : Path::one_shot_or_direct;
    case Path::two_level:
      return fused_if(lines_hold_whole_elements && bytes <= capabilities.two_level_limit_bytes);
    case Path::two_shot:
      return fused_if(lines_hold_whole_elements);
    case Path::one_shot_or_direct:
    case Path::sliced_one_shot:
    case Path::schedule:
      break;
  }
  return Path::schedule;
}

// Why the algorithm does not hold the level that the query asks for, empty if it does: derived from
// its schedule, once.
std::string breaks_level(const Algorithm& algorithm, const Capabilities& capabilities,
                         const Query& query) {
  if (query.level <= TUTTI_LEVEL_FAST) return {};
  const auto levels = schedule::levels_of(
      algorithm,
      {.nranks = capabilities.nranks, .root = query.root, .radix = group_size(capabilities)});
  if (levels.hold(query.level)) return {};
  const std::string level = std::string(" at level ") + level_name(query.level);
  if (query.level == TUTTI_LEVEL_EXACT) {
    return "it passes on sums of some of the ranks, which are rounded, and" + level +
           " a result is rounded once";
  }
  if (query.level == TUTTI_LEVEL_CANONICAL) {
    return "on " + std::to_string(capabilities.nranks) +
           " ranks it does not combine by the one tree that all results have" + level;
  }
  return "it combines one part of a vector in another order than the next, which must not be" +
         level;
}

// Empty when the algorithm can be chosen here.
std::string why_not(const Algorithm& algorithm, const Capabilities& capabilities,
                    const Query& query) {
  std::string why = algorithm.applies(query);
  if (why.empty() && capabilities.copy_only &&
      !schedule::copy_only(algorithm, {.nranks = capabilities.nranks, .root = query.root})) {
    return "it does more than move data from inputs to outputs";
  }
  return why.empty() ? breaks_level(algorithm, capabilities, query) : why;
}

std::string names_of(Collective collective) {
  std::string all;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    all += (all.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return all;
}

std::string reason_of(const Candidate& best, const Capabilities& capabilities, tutti_level level) {
  const std::string ranks = std::to_string(capabilities.nranks) + " ranks";
  if (best.path == Path::one_shot || best.path == Path::one_shot_or_direct) {
    return "all " + ranks +
           " share memory and the vector is short: publish once, read all, one hop";
  }
  if (best.path == Path::sliced_one_shot) {
    return "all " + ranks + " share memory: each publishes its vector in slices and reads all";
  }
  if (best.path == Path::two_level) {
    return "the " + ranks + " sit in groups of " + std::to_string(group_size(capabilities)) +
           " around their caches and the vector is short: one hop within each, one between them";
  }
  if (best.path == Path::one_hop) {
    return "all " + ranks + " share memory: who has something publishes it, the others take it";
  }
  if (best.path == Path::two_shot) {
    return "all " + ranks + " share memory: each reduces its share while the others copy theirs";
  }
  return "of the algorithms that apply to " + ranks + " over " +
         (capabilities.in_memory() ? "shared memory" : "sockets") +
         (level > TUTTI_LEVEL_FAST ? std::string(" at level ") + level_name(level) : "") +
         " the model finds it fastest at this size";
}

}  // namespace

MediumFields medium_fields(const Capabilities& capabilities) {
  const bool shares_cores = capabilities.crowded() && !capabilities.across_hosts;
  if (!capabilities.in_memory()) {
    return {shares_cores ? Field::socket_piece_us : Field::socket_hop_us, Field::socket_gb_s,
            Field::socket_reduce_gb_s};
  }
  return {shares_cores ? Field::context_switch_us : Field::memory_hop_us, Field::memory_slot_gb_s,
          Field::memory_reduce_gb_s};
}

Query plain_query(Collective collective, uint32_t nranks, uint64_t count, uint32_t element_size) {
  Query query;
  query.nranks = nranks;
  query.count = count * (Goal(collective, nranks, 0).blocks() == 1 ? 1 : uint64_t{nranks});
  query.class_count = query.count;
  query.element_size = element_size;
  return query;
}

Counts decided_alike(uint64_t count, uint32_t element_size, const Capabilities& capabilities) {
  const uint64_t most = largest_of_class(count);
  Counts alike{most <= 1 ? 0 : most / 2 + 1, most};
  // Cut at the limits of the protocols.
  for (const size_t limit : {capabilities.staged_limit_bytes, capabilities.one_shot_limit_bytes,
                             capabilities.two_level_limit_bytes}) {
    const uint64_t longest = limit / element_size;
    if (count <= longest) {
      alike.most = std::min(alike.most, longest);
    } else {
      alike.least = std::max(alike.least, longest + 1);
    }
  }
  return alike;
}

Status choose(Collective collective, const Capabilities& capabilities, const Query& query,
              std::string_view forced, bool unfused, Choice* out) {
  if (!forced.empty()) {
    const Algorithm* algorithm = find_algorithm(collective, forced);
    if (algorithm == nullptr) {
      return {TUTTI_INVALID, "there is no " + std::string(collective_name(collective)) +
                                 " algorithm \"" + std::string(forced) + "\"; there are: auto, " +
                                 names_of(collective)};
    }
    if (const std::string why = why_not(*algorithm, capabilities, query); !why.empty()) {
      return {TUTTI_UNSUPPORTED, "algorithm " + std::string(forced) + " cannot run here: " + why};
    }
    const Path path = path_of(*algorithm, capabilities, query, unfused);
    *out = {
        algorithm, path, "it was asked for by name", predict(*algorithm, path, capabilities, query),
        nullptr,   0};
    return {};
  }
  // At level layout the tree must not depend on the size. So all candidates have the same tree:
  // they fold all operands in one place from the left, and round once.
  Query wanted = query;
  if (query.level == TUTTI_LEVEL_LAYOUT) wanted.level = TUTTI_LEVEL_EXACT;
  Candidate best{nullptr, Path::schedule, std::numeric_limits<double>::infinity()};
  Candidate next = best;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !why_not(algorithm, capabilities, wanted).empty())
      continue;
    const Path path = path_of(algorithm, capabilities, query, unfused);
    // Two-level pays only where its groups are ranks that share a cache.
    if (path == Path::two_level && group_size(capabilities) != capabilities.cache_group) continue;
    const Candidate candidate{&algorithm, path, predict(algorithm, path, capabilities, query)};
    if (candidate.us < best.us) {
      next = best;
      best = candidate;
    } else if (candidate.us < next.us) {
      next = candidate;
    }
  }
  if (best.algorithm == nullptr) {
    return {TUTTI_UNSUPPORTED,
            "no " + std::string(collective_name(collective)) + " algorithm can serve this call"};
  }
  *out = {best.algorithm, best.path,      reason_of(best, capabilities, query.level),
          best.us,        next.algorithm, next.algorithm ? next.us : 0};
  return {};
}

std::vector<Route> same_bits(const Choice& choice, const Capabilities& capabilities,
                             const Query& query, std::string_view forced) {
  constexpr double most_times = 3;
  std::vector<Route> routes{{choice.algorithm, choice.path, choice.predicted_us}};
  if (!forced.empty() || capabilities.copy_only) return routes;
  // What folds all operands in one place, from the left, and rounds once has the same bits.
  const auto folds = [&](const Algorithm& algorithm) {
    return schedule::levels_of(algorithm, {.nranks = capabilities.nranks,
                                           .root = query.root,
                                           .radix = group_size(capabilities)})
        .hold(TUTTI_LEVEL_EXACT);
  };
  if (!folds(*choice.algorithm)) return routes;
  std::vector<Route> by_schedule;  // none on shared memory where the choice itself goes so
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != choice.algorithm->collective || &algorithm == choice.algorithm ||
        !why_not(algorithm, capabilities, query).empty() || !folds(algorithm))
      continue;
    const Path path = path_of(algorithm, capabilities, query, false);
    const Route route{&algorithm, path, predict(algorithm, path, capabilities, query)};
    if (path == Path::schedule) {
      if (choice.fused() || !capabilities.all_share_memory) by_schedule.push_back(route);
    } else if (route.predicted_us <= most_times * choice.predicted_us) {
      routes.push_back(route);
    }
  }
  std::stable_sort(by_schedule.begin(), by_schedule.end(),
                   [](const Route& a, const Route& b) { return a.predicted_us < b.predicted_us; });
  if (capabilities.all_share_memory && by_schedule.size() > 1) by_schedule.resize(1);
  // Where not all ranks hear from each other a call tells what was measured by its schedule.
  const bool tells =
      capabilities.all_share_memory && ends_unheard(choice.algorithm->collective, false, false);
  const bool is_short =
      query.class_count * query.element_size <= capabilities.tuning.tried_schedule_bytes;
  for (const Route& route : by_schedule) {
    if (tells || (is_short && route.predicted_us <= most_times * choice.predicted_us))
      routes.push_back(route);
  }
  return routes;
}

}  // namespace tutti
