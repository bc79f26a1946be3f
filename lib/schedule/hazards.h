// From program order to what a step really waits for. A rank has two lanes that advance in order
// and independently: the sends, and everything else. Two steps conflict when their ranges overlap
// and one of them writes; in place input and output are one memory, so they count as one range.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedule/layout.h"

namespace tutti::schedule {

enum class Lane : uint8_t { outgoing, incoming };

constexpr Lane lane_of(Kind kind) { return kind == Kind::send ? Lane::outgoing : Lane::incoming; }
constexpr Lane other_lane(Lane lane) {
  return lane == Lane::outgoing ? Lane::incoming : Lane::outgoing;
}

// For every step of the program: how many steps of the other lane must be done before it, because
// the last of those conflicts with it. Within its lane a step waits for all earlier ones.
std::vector<uint32_t> hazards(const Program& program, const Layout& layout);

}  // namespace tutti::schedule
