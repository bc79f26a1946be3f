#include "lib/slots/segment.h"

#include <algorithm>

namespace tutti::slots {

namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Segment::Segment(std::byte* base, const Geometry& geometry) : base_(base), geometry_(geometry) {
  const size_t n = geometry.nranks;
  size_t at = 0;
  const auto take = [&at](size_t bytes) {
    const size_t begin = at;
    at = round_up(at + bytes, page_bytes);
    return begin;
  };
  take(sizeof(AbortRecord));
  ranks_ = take(n * sizeof(RankLines));
  credits_ = take(n * n * sizeof(CreditLine));
  slot_lines_ = take(n * n * geometry.slots * sizeof(SlotLine));
  flags_ = take(n * geometry.flag_lines * sizeof(FlagLine));
  mail_credits_ = take(n * n * sizeof(CreditLine));
  mail_ = take(n * n * Geometry::mail_slots * sizeof(MailSlot));
  cells_ = take(n * geometry.cell_bytes);
  slot_data_ = take(n * n * geometry.slots * size_t(geometry.slice_bytes));
  total_ = at;
}

std::vector<Segment::Part> Segment::home_of(uint32_t r) const {
  const size_t pair = size_t(geometry_.slots) * geometry_.slice_bytes;
  std::vector<Part> parts = {{cell_data(r), geometry_.cell_bytes},
                             {slot_data(r, 0), r * pair},
                             {slot_data(r, r + 1), (geometry_.nranks - 1 - r) * pair}};
  if (r == 0) parts.push_back({base_, cells_});
  return parts;
}

std::vector<Segment::Part> Segment::in_reach_of(uint32_t r) const {
  std::vector<Part> parts = {{base_, slot_data_}};
  for (uint32_t from = 0; from < geometry_.nranks; ++from) {
    if (from != r)
      parts.push_back({slot_data(from, r), size_t(geometry_.slots) * geometry_.slice_bytes});
  }
  return parts;
}

size_t Geometry::total_bytes() const { return Segment(nullptr, *this).total_bytes(); }

Geometry Geometry::for_ranks(uint32_t nranks, const Tuning& tuning) {
  Geometry geometry;
  geometry.nranks = nranks;
  geometry.slots = tuning.slots;
  const uint32_t full_length = std::max(nranks, full_slot_ranks);
  const size_t slice_bytes = size_t(tuning.slot_bytes) * full_slot_ranks / full_length;
  geometry.slice_bytes = std::max(uint32_t(slice_bytes / line_bytes * line_bytes),
                                  std::min(tuning.slot_bytes, least_slice_bytes));
  geometry.flag_lines = cell_flag_lines;
  // The parts of a rank's cells: two resident places, the arenas (lib/shared_memory/staging.h), the
  // ring of one-hop. The arenas are as long as it takes for staged blocks to rotate through, and no
  // longer: every page costs a microsecond or two when a communicator is made.
  const size_t arenas = nranks <= 4   ? tuning.few_arena_bytes
                        : nranks <= 8 ? tuning.some_arena_bytes
                                      : tuning.many_arena_bytes;
  geometry.cell_bytes =
      round_up(2 * tuning.resident_bytes + arenas + tuning.ring_bytes, page_bytes);
  return geometry;
}

}  // namespace tutti::slots
