// Allreduce of sparse vectors: every rank owns a part of the indices; entries go to their owner,
// who merges them, and come back. The split allgather of SparCML (Renggli et al., SC 2019), with
// parts of equal length.
#pragma once

#include <vector>

#include "lib/sparse/compound.h"
#include "lib/sparse/pieces.h"

namespace tutti::sparse {

// The result as it arrived, a piece from each owner; in the call's memory.
class Result {
 public:
  uint64_t entries() const { return entries_; }
  // In ascending order; both have room for entries(). CORRUPT if what was received is malformed.
  Status copy_to(uint32_t* indices, std::byte* values) const;
  // Writes the values to `vector`, at the places that the indices say.
  Status scatter_to(std::byte* vector) const;

 private:
  friend Status allreduce(CompoundCall&, const Arguments&, const Entries&, uint64_t, Result*);

  uint64_t entries_ = 0;
  size_t value_size_ = 0;
  std::vector<PieceShape> shapes_;
  const std::byte* pieces_ = nullptr;
};

// Collective. `arguments` name a built-in type and an operator that it has. `room`: entries of the
// result that this rank can take; when there are more of them than some rank can take, *out has
// only their number, the Status is INVALID on all ranks and the communicator is unharmed.
Status allreduce(CompoundCall& call, const Arguments& arguments, const Entries& mine, uint64_t room,
                 Result* out);

}  // namespace tutti::sparse
