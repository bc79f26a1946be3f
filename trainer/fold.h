// A sum of n vectors that come one after the other, in tutti's canonical tree: the same bits as
// tutti_reduce_local() of all of them at that level, with a logarithmic number of them in memory.
#pragma once

#include <span>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

template <class Real>
class BasicFold {
 public:
  // The n vectors of one sum; n >= 1.
  explicit BasicFold(size_t n) : n_(n) {
    while (2 * inner_ <= n) inner_ *= 2;
    slots_.resize(66);
  }
  // The next vector; it is overwritten. After the last one it holds the sum, and the next one
  // begins another.
  void add(std::span<Real> vector) {
    const size_t paired = n_ - inner_;  // pairs of extra leaves are joined first
    size_t node = next_ < 2 * paired ? next_ / 2 : next_ - paired;
    if (next_ < 2 * paired && next_ % 2 == 0) {
      keep(65, vector);
    } else {
      if (next_ < 2 * paired) join(65, vector);
      size_t level = 0;
      for (; node >> level & 1; ++level) join(level, vector);
      if (node + 1 < inner_) keep(level, vector);
    }
    next_ = (next_ + 1) % n_;
  }

 private:
  void keep(size_t slot, std::span<const Real> vector) {
    slots_[slot].assign(vector.begin(), vector.end());
  }
  void join(size_t slot, std::span<Real> right) {
    const Real* operands[] = {slots_[slot].data(), right.data()};
    reduce_local<Real>(operands, right, TUTTI_SUM, TUTTI_LEVEL_CANONICAL);
  }

  size_t n_;
  size_t inner_ = 1;  // largest power of two <= n
  size_t next_ = 0;
  std::vector<std::vector<Real>> slots_;
};
using Fold = BasicFold<float>;

}  // namespace tutti::train
