// Selects the entries of a vector that are sent, and keeps the residual of those that were not:
// sparsified SGD with memory (Stich, Cordonnier, Jaggi, NeurIPS 2018), the local accumulation of
// Deep Gradient Compression (Lin et al., ICLR 2018).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/sparse/pieces.h"
#include "tutti/tutti.h"

namespace tutti::sparse {

// One thread at a time.
class TopK {
 public:
  // `dtype` is float32 or float64; k <= length <= 2^32.
  TopK(uint64_t length, uint64_t k, tutti_dtype dtype);

  uint64_t length() const { return length_; }
  uint64_t k() const { return k_; }
  tutti_dtype dtype() const { return dtype_; }
  // `length` elements; valid until the next commit().
  std::byte* residual() { return residual_.data(); }

  // The k entries of residual + input that are largest in magnitude; of equal ones those with the
  // lowest indices. A NaN is larger than any number, and zeros are left out. Valid until the next
  // call. Does not change the residual.
  Entries pick(const std::byte* input);
  // What was picked has been sent: the residual is residual + input without it.
  void commit();

 private:
  template <class Float>
  void pick_of(const std::byte* input);

  uint64_t length_;
  uint64_t k_;
  tutti_dtype dtype_;
  std::vector<std::byte> residual_;
  std::vector<std::byte> next_;  // residual + input
  std::vector<uint32_t> indices_;
  std::vector<std::byte> values_;
};

}  // namespace tutti::sparse
