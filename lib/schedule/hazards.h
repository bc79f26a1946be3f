// From program order to what a step really waits for. A rank has two lanes that advance in order
// and independently: the sends, and everything else. Two steps conflict when their ranges overlap
// and one of them writes; in place input and output are one memory, so they count as one range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/schedule/layout.h"

namespace tutti::schedule {

enum class Lane : uint8_t { outgoing, incoming };

constexpr Lane lane_of(Kind kind) { return kind == Kind::send ? Lane::outgoing : Lane::incoming; }
constexpr Lane other_lane(Lane lane) {
  return lane == Lane::outgoing ? Lane::incoming : Lane::outgoing;
}

// What a step waits for: how many steps of the other lane must be done before it, because the last
// of those conflicts with it. Within its lane a step waits for all earlier ones.
struct Wait {
  uint32_t steps = 0;
  // The last of them touches what this one touches there, no more, no less.
  bool same_range = false;
};

// Follows a program step by step.
class Hazards {
 public:
  explicit Hazards(const Layout& layout);

  void begin(Lane lane);  // the next step, then what it
  void reads(const Range& range);
  void writes(const Range& range);  // after what it reads
  const Wait& wait() const { return wait_; }

 private:
  // The last step of a lane that did so: its number from 1 on, and what it touched.
  struct Touch {
    uint32_t step = 0;
    uint32_t first = 0, size = 0;
  };
  struct Cell {
    Touch write, read;
  };

  void note(const Touch& other, const Touch& own);

  const Layout& layout_;
  std::array<std::vector<Cell>, 2> cells_;  // by lane
  std::array<uint32_t, 2> steps_{};         // so far, by lane
  Lane lane_ = Lane::outgoing;
  Wait wait_;
};

// For every step of the program Wait::steps.
std::vector<uint32_t> hazards(const Program& program, const Layout& layout);

}  // namespace tutti::schedule
