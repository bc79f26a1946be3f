// From program order to what a step really waits for. A rank has two lanes that advance in order and
// independently: the sends, and everything else. Two steps conflict when their ranges overlap and one
// of them writes; in place input and output are one memory, so they count as one range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/schedule/schedule.h"

namespace tutti::schedule {

enum class Lane : uint8_t { outgoing, incoming };

constexpr Lane lane_of(Kind kind) { return kind == Kind::send ? Lane::outgoing : Lane::incoming; }

// Fed the steps of a rank in program order.
class Hazards {
 public:
  Hazards(uint32_t chunks, uint32_t scratch_rows);

  // What a step waits for in the other lane: so many of its steps must be done.
  struct Wait {
    uint32_t steps = 0;
    // The last of those conflicts on the very same range (and so may be followed byte by byte).
    bool same_range = false;
  };

  // The step that is the (index+1)-th of its lane reads or writes `range`. Reads come first.
  void reads(Lane lane, const Range& range, uint32_t index, Wait* wait);
  void writes(Lane lane, const Range& range, uint32_t index, Wait* wait);

 private:
  struct Touch {
    uint32_t step = 0;  // index + 1, 0: never
    uint32_t begin = 0, end = 0;
  };
  struct Chunk {
    Touch write, read;
  };

  Chunk& at(Lane lane, Role role, uint32_t chunk) {
    return seen_[std::size_t(lane)][std::size_t(role)][chunk];
  }
  void visit(Lane lane, const Range& range, bool writing, Wait* wait);
  static void note(const Touch& touch, const Range& range, Wait* wait);

  std::array<std::array<std::vector<Chunk>, 3>, 2> seen_;  // by lane and role
};

}  // namespace tutti::schedule
