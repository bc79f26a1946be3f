// A sum of n vectors that arrive one by one, in tutti's canonical tree: the same bits as
// tutti_reduce_local() of all of them at level canonical. If they arrive in order, at most a
// logarithmic number of them is in memory.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "trainer/device/vectors.h"

namespace tutti::train {

template <class Real>
class BasicFold {
 public:
  // The n vectors of one sum, all on the device; n >= 1.
  explicit BasicFold(size_t n, const Device& device = {}) : n_(n), device_(device) {
    while (2 * inner_ <= n) inner_ *= 2;
  }
  // Adds vector `leaf` of the n: each once, in any order. The vector is overwritten. The last one
  // to be added holds the sum afterwards; the next call begins another sum.
  void add(size_t leaf, std::span<Real> vector) {
    const size_t paired = n_ - inner_;  // pairs of extra leaves are joined first
    size_t level = leaf < 2 * paired ? 0 : 1;
    size_t node = level == 0 ? leaf : leaf - paired;
    for (; level == 0 || inner_ >> (level - 1) > 1; ++level, node /= 2) {
      const auto sibling = waiting_.find({level, node ^ 1});
      if (sibling == waiting_.end()) return keep({level, node}, vector);
      Vectors<Real>::add(device_, sibling->second.span(), vector);
      spare_.push_back(std::move(sibling->second));
      waiting_.erase(sibling);
    }
  }
  size_t size() const { return n_; }
  // Adds the next vector, where they arrive in order.
  void add(std::span<Real> vector) {
    add(next_, vector);
    next_ = (next_ + 1) % n_;
  }

 private:
  using Node = std::pair<size_t, size_t>;  // level, index in the level
  void keep(const Node& node, std::span<const Real> vector) {
    Buffer<Real> room;
    if (!spare_.empty()) {
      room = std::move(spare_.back());
      spare_.pop_back();
    }
    if (room.size() != vector.size()) room = Buffer<Real>(device_, vector.size());
    Vectors<Real>::copy(device_, vector, room.span());
    waiting_.emplace(node, std::move(room));
  }

  size_t n_;
  Device device_;
  size_t inner_ = 1;  // largest power of two <= n
  size_t next_ = 0;
  std::map<Node, Buffer<Real>> waiting_;
  std::vector<Buffer<Real>> spare_;  // free buffers, to be reused
};
using Fold = BasicFold<float>;

}  // namespace tutti::train
