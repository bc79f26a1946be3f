// An algorithm as the library sees it: a name, a pure emitter, and what it cannot serve.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/schedule/schedule.h"

namespace tutti {

enum class Collective : uint8_t { allreduce, broadcast, barrier, point_to_point };
constexpr const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return "allreduce";
    case Collective::broadcast: return "broadcast";
    case Collective::barrier: return "barrier";
    case Collective::point_to_point: return "point_to_point";
  }
  return "?";
}

// What a caller asks of an algorithm; equal on all ranks.
struct Request {
  uint32_t nranks = 1;
  uint64_t count = 0;       // elements
  uint32_t element_size = 1;  // bytes
  bool ordered = false;     // the operator is not commutative: operands must keep rank order
};

struct Algorithm {
  const char* name;  // "halving-doubling"; unique within its collective
  Collective collective;
  const char* about;  // one sentence for a list
  void (*emit)(const schedule::Shape& shape, schedule::Sink& sink);
  // Empty when the algorithm can serve the request, else one sentence that says why not.
  std::string (*applies)(const Request& request);
};

// Every algorithm, in the order of the list in registry.cc.
std::span<const Algorithm> algorithms();
// nullptr if there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
