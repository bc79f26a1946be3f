// An algorithm as the library sees it: a name, a pure emitter, and what it cannot serve.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/schedule/schedule.h"

namespace tutti {

enum class Collective : uint8_t { allreduce, broadcast, barrier, point_to_point, reduce };
constexpr const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
      return "allreduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
    case Collective::point_to_point:
      return "point_to_point";
    case Collective::reduce:
      return "reduce";
  }
  return "?";
}

// What a collective asks of a rank: whether its vector goes into the result, whether it gets the
// result, and whether there is a rank that everything goes from or to. The output of a rank that
// gets none is memory to work in.
constexpr bool is_rooted(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}
constexpr bool contributes(Collective collective, uint32_t rank, uint32_t root) {
  return collective != Collective::broadcast || rank == root;
}
constexpr bool gets_result(Collective collective, uint32_t rank, uint32_t root) {
  return collective != Collective::reduce || rank == root;
}

// What a caller asks of an algorithm; equal on all ranks.
struct Request {
  uint32_t nranks = 1;
  uint64_t count = 0;         // elements
  uint32_t element_size = 1;  // bytes
  uint32_t root = 0;          // of rooted collectives
  bool ordered = false;       // the operator is not commutative: operands must keep rank order
};

// What an algorithm promises to cost, as formulas of the number of ranks (lib/schedule/formula.h
// has the notation). They are exact: the prover's counts are compared with them at every rank
// count, and the table of the README is made of them.
struct Claims {
  const char* rounds;            // with one port: one send and one receive at a time
  const char* rounds_multiport;  // with a port for each peer
  const char* messages;          // of all ranks together
  const char* sent;              // by the rank that sends most, in vectors
  const char* reduced;           // by the rank that reduces most, in vectors
};

struct Algorithm {
  const char* name;  // "halving-doubling"; unique within its collective
  Collective collective;
  const char* about;  // one sentence for a list
  void (*emit)(const schedule::Shape& shape, schedule::Sink& sink);
  // Empty when the algorithm can serve the request, else one sentence that says why not.
  std::string (*applies)(const Request& request);
  Claims claims;
};

// For an algorithm that serves every request.
inline std::string serves_everything(const Request&) { return {}; }

// Every algorithm, in the order of list.h.
std::span<const Algorithm> algorithms();
// nullptr if there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
