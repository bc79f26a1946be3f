#include "lib/schedule/hazards.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tutti::schedule {

namespace {

// How many steps of a lane were done once it had last written, and last read, a cell.
struct Touched {
  uint32_t write = 0;
  uint32_t read = 0;
};

// Lanes advance in order, so the last conflict in the other lane stands for all earlier ones.
class Tracker {
 public:
  explicit Tracker(const Layout& layout) : layout_(layout) {
    for (auto& cells : touched_) cells.resize(layout.cells());
  }

  uint32_t step(const Step& step) {
    const Lane lane = lane_of(step.kind);
    const uint32_t done = ++steps_[size_t(lane)];
    uint32_t wait = 0;
    if (has_from(step.kind)) wait = std::max(wait, read(lane, step.from, done));
    if (reads_to(step.kind)) wait = std::max(wait, read(lane, step.to, done));
    if (has_to(step.kind)) wait = std::max(wait, write(lane, step.to, done));
    return wait;
  }

 private:
  uint32_t read(Lane lane, const Range& range, uint32_t done) {
    uint32_t wait = 0;
    const uint32_t first = layout_.first(range);
    for (uint32_t cell = first; cell < first + range.size(); ++cell) {
      wait = std::max(wait, touched_[size_t(other_lane(lane))][cell].write);
      touched_[size_t(lane)][cell].read = done;
    }
    return wait;
  }
  uint32_t write(Lane lane, const Range& range, uint32_t done) {
    uint32_t wait = 0;
    const uint32_t first = layout_.first(range);
    for (uint32_t cell = first; cell < first + range.size(); ++cell) {
      const Touched& other = touched_[size_t(other_lane(lane))][cell];
      wait = std::max({wait, other.write, other.read});
      touched_[size_t(lane)][cell].write = done;
    }
    return wait;
  }

  const Layout& layout_;
  std::array<uint32_t, 2> steps_{};              // so far, by lane
  std::array<std::vector<Touched>, 2> touched_;  // by lane and cell
};

}  // namespace

std::vector<uint32_t> hazards(const Program& program, const Layout& layout) {
  Tracker tracker(layout);
  std::vector<uint32_t> waits;
  waits.reserve(program.steps.size());
  for (const Step& step : program.steps) waits.push_back(tracker.step(step));
  return waits;
}

}  // namespace tutti::schedule
