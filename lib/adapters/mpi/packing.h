// The program's buffers as tutti takes them: elements and blocks without gaps, where they are, or
// in copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/adapters/mpi/types.h"

namespace tutti::mpi {

inline char* at(const void* buffer, ptrdiff_t bytes) {
  return static_cast<char*>(const_cast<void*>(buffer)) + bytes;
}

// Elements of the program's, one after the other without gaps; and back. Throw where the host
// refuses.
void pack(const void* from, int64_t count, MPI_Datatype type, const Type& known, char* to);
void unpack(const char* from, int64_t count, MPI_Datatype type, const Type& known, void* to);

// One program's buffer of elements one after the other.
struct Elements {
  const Type* known;
  MPI_Datatype type;
  int64_t count;
  size_t bytes() const { return size_t(count) * known->size; }
};

// Where the data of a buffer lies without gaps: there, or `copied` into `scratch`, as types with
// gaps always are.
const void* gapless(const void* buffer, const Elements& elements, bool copied,
                    std::vector<char>* scratch);
// Where such data is to be received, and its way home.
char* room_for(void* buffer, const Elements& elements, bool copied, std::vector<char>* scratch);
void bring_home(const char* data, void* buffer, const Elements& elements);

// Blocks of different lengths in one buffer, in bytes.
struct Blocks {
  char* data = nullptr;  // of the first
  const size_t* lengths = nullptr;
  const size_t* places = nullptr;  // null: packed, one after the other
};

template <class Count, class Place>
Blocks blocks_of(const void* buffer, const Count* counts, const Place* places, int nranks,
                 const Type& known, std::vector<size_t>* lengths, std::vector<size_t>* offsets) {
  lengths->resize(size_t(nranks));
  offsets->resize(size_t(nranks));
  ptrdiff_t least = PTRDIFF_MAX;
  for (int i = 0; i < nranks; ++i) {
    (*lengths)[size_t(i)] = size_t(counts[i]) * known.size;
    if (counts[i] > 0) least = std::min(least, ptrdiff_t(places[i]) * known.extent);
  }
  if (least == PTRDIFF_MAX) least = 0;
  for (int i = 0; i < nranks; ++i) {
    (*offsets)[size_t(i)] = counts[i] > 0 ? size_t(ptrdiff_t(places[i]) * known.extent - least) : 0;
  }
  return {at(buffer, least), lengths->data(), offsets->data()};
}

template <class Count, class Place>
void pack_blocks(const void* buffer, const Count* counts, const Place* places, int nranks,
                 MPI_Datatype type, const Type& known, Blocks* blocks, std::vector<char>* scratch,
                 bool with_content) {
  size_t total = 0;
  for (int i = 0; i < nranks; ++i) total += blocks->lengths[i];
  scratch->resize(total + 1);
  char* to = scratch->data();
  for (int i = 0; with_content && i < nranks; ++i) {
    pack(at(buffer, ptrdiff_t(places[i]) * known.extent), counts[i], type, known, to);
    to += blocks->lengths[i];
  }
  blocks->data = scratch->data();
  blocks->places = nullptr;
}

// The way home of packed blocks. Of those that overlap, the higher rank's stays.
template <class Count, class Place>
void bring_blocks_home(const Blocks& blocks, void* buffer, const Count* counts, const Place* places,
                       int nranks, MPI_Datatype type, const Type& known) {
  if (blocks.places != nullptr) return;
  const char* from = blocks.data;
  for (int i = 0; i < nranks; ++i) {
    unpack(from, counts[i], type, known, at(buffer, ptrdiff_t(places[i]) * known.extent));
    from += blocks.lengths[i];
  }
}

}  // namespace tutti::mpi
