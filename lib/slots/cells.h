// Shared cells: what the protocols of lib/shared_memory see of the memory that all ranks of a
// communicator share. Every rank has `flag_lines` cache lines with a flag and 56 bytes of payload
// each, and `bytes` bytes of data that only it writes and everybody may read.
#pragma once

#include "lib/base/mapping.h"
#include "lib/slots/segment.h"

namespace tutti {

class SharedCells {
 public:
  SharedCells(const slots::Segment& segment, uint32_t rank) : segment_(segment), rank_(rank) {}

  uint32_t rank() const { return rank_; }
  uint32_t nranks() const { return segment_.geometry().nranks; }
  size_t bytes() const { return segment_.geometry().cell_bytes; }

  slots::FlagLine* flags(uint32_t rank) const { return segment_.flag_lines(rank); }
  std::byte* data(uint32_t rank) const { return segment_.cell_data(rank); }

  // Has all pages of the own data allocated, which else come when they are used.
  Status touch() const { return tutti::touch(data(rank_), bytes()); }

 private:
  const slots::Segment& segment_;
  uint32_t rank_;
};

}  // namespace tutti
