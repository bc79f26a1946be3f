#include "lib/schedule/hazards.h"

#include <stddef.h>

namespace tutti::schedule {

namespace {

constexpr Lane other_lane(Lane lane) {
  return lane == Lane::outgoing ? Lane::incoming : Lane::outgoing;
}

// The role that is the same memory when the call is in place.
constexpr Role twin(Role role) {
  return role == Role::input ? Role::output : role == Role::output ? Role::input : role;
}

}  // namespace

Hazards::Hazards(uint32_t chunks, uint32_t scratch_rows) {
  for (auto& lane : seen_) {
    lane[size_t(Role::input)].resize(chunks);
    lane[size_t(Role::output)].resize(chunks);
    lane[size_t(Role::scratch)].resize(size_t(chunks) * scratch_rows);
  }
}

void Hazards::note(const Touch& touch, const Range& range, Wait* wait) {
  if (touch.step == 0 || touch.step < wait->steps) return;
  const bool same = touch.begin == range.begin && touch.end == range.end;
  wait->same_range = touch.step > wait->steps ? same : wait->same_range && same;
  wait->steps = touch.step;
}

void Hazards::visit(Lane lane, const Range& range, bool writing, Wait* wait) {
  for (uint32_t chunk = range.begin; chunk < range.end; ++chunk) {
    const Chunk& own = at(other_lane(lane), range.role, chunk);
    note(own.write, range, wait);
    if (writing) note(own.read, range, wait);
    if (twin(range.role) == range.role) continue;
    const Chunk& aliased = at(other_lane(lane), twin(range.role), chunk);
    note(aliased.write, range, wait);
    if (writing) note(aliased.read, range, wait);
  }
}

void Hazards::reads(Lane lane, const Range& range, uint32_t index, Wait* wait) {
  visit(lane, range, false, wait);
  for (uint32_t chunk = range.begin; chunk < range.end; ++chunk) {
    at(lane, range.role, chunk).read = {index + 1, range.begin, range.end};
  }
}

void Hazards::writes(Lane lane, const Range& range, uint32_t index, Wait* wait) {
  visit(lane, range, true, wait);
  for (uint32_t chunk = range.begin; chunk < range.end; ++chunk) {
    at(lane, range.role, chunk).write = {index + 1, range.begin, range.end};
  }
}

}  // namespace tutti::schedule
