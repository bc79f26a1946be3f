// What all calls of one collective, root and length by one_hop.h have in common: who gives what to
// whom, and how that is cut into slices.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/schedule/goal.h"
#include "lib/tuning/tuning.h"

namespace tutti::shared {

struct OneHopShape {
  OneHopShape() = default;
  // `tuning` outlives this. As `self`, among `nranks`. `count` elements of a vector, or of a block;
  // at least 1.
  OneHopShape(Collective collective, uint32_t root, uint64_t count, uint32_t element_size,
              uint32_t nranks, uint32_t self, const Tuning& tuning);

  // For calls that differ in their count only.
  void resize(uint64_t count);
  // `whole_slices`: a short part is not cut; the same on all ranks. `past`: results go past the
  // caches.
  void vary(bool whole_slices, bool past);

  bool operator==(const OneHopShape&) const = default;

  // The longest element, in bytes, that fits into a slice among so many ranks.
  static size_t most_element_bytes(uint32_t nranks, const Tuning& tuning);

  Goal goal{Collective::barrier, 1};
  uint64_t count = 0;
  uint32_t element_size = 1;
  bool combines = false;

  std::vector<uint32_t> readers;      // the ranks that take from this one, ascending
  std::vector<uint32_t> sources;      // the ranks that it takes from, ascending
  bool separate_parts = false;        // every reader has a part of its own
  bool gets_many = false;             // the output has a block from every rank
  uint64_t part_bytes = 0;            // of one part
  uint32_t parts = 1;                 // that a rank publishes
  bool has_own_block = false;         // to be copied from the own input to the own output
  uint64_t own_from = 0, own_to = 0;  // its offset in each, in bytes

  uint32_t slices = 0;       // of a call
  uint64_t slice_bytes = 0;  // of one part in one slice
  size_t stride = 0;         // from part to part in a slice, in bytes
  bool in_line = false;      // slices travel in the line of their flag

  bool streams = false;        // what comes from others is written with non-temporal stores
  bool exceeds_cache = false;  // inputs, outputs and rings of all ranks exceed the cache

  uint64_t slice_in_ring() const { return parts * stride; }  // bytes

 private:
  bool whole_slices_ = false, past_ = false;

  void set_roles();
  void find_own_block();
  void cut();
  void weigh();

  uint32_t nranks_ = 1, self_ = 0;
  const Tuning* tuning_ = &default_tuning;
};

// A part of a rank's share of the last-level cache, in bytes. Longer output is written with
// non-temporal stores, because what it is copied from needs room in the cache, too.
size_t kept_bytes(uint32_t nranks, const Tuning& tuning);

// Reductions with non-temporal stores go through a buffer of this size on the stack; the most of
// Tuning::streamed_piece_bytes.
constexpr size_t most_streamed_piece_bytes = 16 << 10;

}  // namespace tutti::shared
