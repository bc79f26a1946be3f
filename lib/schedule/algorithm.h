// An algorithm as the library sees it: a name, a pure emitter, its costs, and what it cannot serve.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/schedule/goal.h"
#include "lib/schedule/schedule.h"
#include "tutti/tutti.h"

namespace tutti {

// What a caller asks of an algorithm; equal on all ranks.
struct Query {
  uint32_t nranks = 1;
  uint64_t count = 0;            // elements
  uint64_t class_count = 0;      // the largest count of its size class; 0: `count`
  uint32_t element_size = 1;     // bytes
  uint32_t root = 0;             // of rooted collectives
  bool ordered = false;          // the operator is not commutative: operands must keep rank order
  bool uneven = false;           // blocks have lengths of their own
  bool private_lengths = false;  // only a block's sender and receiver know how long it is
  // What must hold for arithmetic that rounds; fast where the order of operands does not matter.
  tutti_level level = TUTTI_LEVEL_FAST;
};

// What an algorithm claims to cost, as formulas in the number of ranks (notation:
// lib/schedule/formula.h). They are exact: the prover's counts are compared with them at every rank
// count, and the README's table is generated from them.
struct Claims {
  const char* rounds;            // with one port: one send and one receive at a time
  const char* rounds_multiport;  // with a port for each peer
  const char* messages;          // of all ranks together
  const char* sent;              // by the rank that sends most, in buffers (Goal::buffers())
  const char* reduced;           // by the rank that reduces most, in buffers
};

// How a call goes: step by step as its schedule says, or by a fused protocol that implements it.
enum class Path : uint8_t {
  schedule,
  one_shot,
  one_shot_or_direct,  // direct where all ranks reach all vectors, else one-shot
  sliced_one_shot,     // the same with longer vectors, in slices
  two_level,
  two_shot,
  one_hop,  // at most eight: CallSignature::path_mask
};

struct Algorithm {
  const char* name;  // "halving-doubling"; unique within its collective
  Collective collective;
  const char* about;  // one sentence for a list
  void (*emit)(const schedule::Shape& shape, schedule::Sink& sink);
  // Empty when the algorithm can serve the query, else one sentence that says why not.
  std::string (*applies)(const Query& query);
  Claims claims;
  Path fused = Path::schedule;  // the protocol that implements it where all ranks share memory
};

// For an algorithm that serves every query.
inline std::string serves_everything(const Query&) { return {}; }
// For an algorithm that routes blocks through ranks that neither send nor get them.
inline std::string lengths_known_to_all(const Query& query) {
  if (!query.private_lengths) return {};
  return "it takes blocks through ranks that do not know how long they are";
}
// For an algorithm that keeps rank order on two ranks only.
inline std::string two_ranks_where_ordered(const Query& query) {
  if (!query.ordered || query.nranks <= 2) return {};
  return "it adds in an order that depends on the chunk, so it cannot serve an operator that is "
         "not "
         "commutative";
}

}  // namespace tutti
