// From program order to what a step really waits for. A rank has two lanes, the sends and
// everything else; each advances in order, independently of the other. Two steps conflict when
// their ranges overlap and one of them writes. In place, input and output are the same memory, so
// they count as one range.
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
  // The last of them touches exactly the range where this step conflicts with it.
  bool same_range = false;
};

// Follows a program step by step.
class Hazards {
 public:
  explicit Hazards(const Layout& layout);

  void begin(Lane lane);            // the next step begins; then
  void reads(const Range& range);   // what it reads, then
  void writes(const Range& range);  // what it writes
  const Wait& wait() const { return wait_; }

 private:
  // The last step of a lane that read, or wrote, a cell: its number from 1 on, and its range.
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

// Wait::steps of every step of the program.
std::vector<uint32_t> hazards(const Program& program, const Layout& layout);

}  // namespace tutti::schedule
