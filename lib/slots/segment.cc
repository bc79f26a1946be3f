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
  // longer: every page costs a microsecond or two when it is first used.
  const size_t arenas = nranks <= 4   ? tuning.few_arena_bytes
                        : nranks <= 8 ? tuning.some_arena_bytes
                                      : tuning.many_arena_bytes;
  geometry.cell_bytes =
      round_up(2 * tuning.resident_bytes + arenas + tuning.ring_bytes, page_bytes);
  return geometry;
}

}  // namespace tutti::slots
