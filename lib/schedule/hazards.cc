#include "lib/schedule/hazards.h"

namespace tutti::schedule {

Hazards::Hazards(const Layout& layout) : layout_(layout) {
  for (auto& cells : cells_) cells.resize(layout.cells());
}

void Hazards::begin(Lane lane) {
  lane_ = lane;
  ++steps_[size_t(lane)];
  wait_ = {};
}

void Hazards::reads(const Range& range) {
  const Touch own{steps_[size_t(lane_)], layout_.first(range), range.size()};
  for (uint32_t cell = own.first; cell < own.first + own.size; ++cell) {
    note(cells_[size_t(other_lane(lane_))][cell].write, own);
    cells_[size_t(lane_)][cell].read = own;
  }
}

void Hazards::writes(const Range& range) {
  const Touch own{steps_[size_t(lane_)], layout_.first(range), range.size()};
  for (uint32_t cell = own.first; cell < own.first + own.size; ++cell) {
    const Cell& other = cells_[size_t(other_lane(lane_))][cell];
    note(other.write, own);
    note(other.read, own);
    cells_[size_t(lane_)][cell].write = own;
  }
}

// Lanes advance in order, so the last conflict in the other lane stands for all earlier ones.
void Hazards::note(const Touch& other, const Touch& own) {
  if (other.step == 0 || other.step < wait_.steps) return;
  const bool same = other.first == own.first && other.size == own.size;
  wait_.same_range = same && (other.step > wait_.steps || wait_.same_range);
  wait_.steps = other.step;
}

std::vector<uint32_t> hazards(const Program& program, const Layout& layout) {
  Hazards tracker(layout);
  std::vector<uint32_t> waits;
  waits.reserve(program.steps.size());
  for (const Step& step : program.steps) {
    tracker.begin(lane_of(step.kind));
    if (has_from(step.kind)) tracker.reads(step.from);
    if (reads_to(step.kind)) tracker.reads(step.to);
    if (has_to(step.kind)) tracker.writes(step.to);
    waits.push_back(tracker.wait().steps);
  }
  return waits;
}

}  // namespace tutti::schedule
