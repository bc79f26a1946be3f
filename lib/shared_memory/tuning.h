// What decides how ranks that share memory use it. All lengths in bytes. The defaults were measured
// on two cores of an AMD EPYC that share a last-level cache (lib/shared_memory/notes.md); the
// simulation makes them tiny. Equal on all ranks of a communicator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::shared {

struct Tuning {
  size_t resident_bytes = 8 << 10;         // one-shot up to here: in one of two resident places
  size_t one_shot_bytes = 64 << 10;        // the longest vector of one-shot
  size_t staged_bytes = 4 << 10;           // up to here staging costs less than direct's second hop
  size_t two_shot_slice_bytes = 64 << 10;  // the longest slice of two-shot
  uint32_t two_shot_window = 16;           // slices that a rank is ahead, at most
  size_t rotated_bytes = 1 << 20;  // of the arenas; more only evicts the vectors from the cache
  size_t ring_bytes = 2 << 20;     // of one-hop, a power of two: longer than a core's own cache, so
                                // that the slices of a writer that is far ahead are in the shared
                                // cache, from where they are read more than twice as fast
  uint32_t ring_slices = 128;                  // a power of two, at most line::most_slices
  size_t one_hop_slice_bytes = 64 << 10;       // the longest slice of one-hop, all parts together
  size_t least_one_hop_slice_bytes = 8 << 10;  // a shorter one costs more in flags than it hides
  size_t single_copy_bytes = 32 << 10;         // the shortest part for single copy
  size_t measured_bytes = 2 << 10;  // the shortest one-shot vector written by slice_writer.h
};

}  // namespace tutti::shared
