// A FIFO queue that keeps its memory, so that it allocates only when it grows.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::ucx {

template <class T>
class Queue {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t place) { return all_[(first_ + place) & (all_.size() - 1)]; }
  const T& operator[](size_t place) const { return all_[(first_ + place) & (all_.size() - 1)]; }
  // Invalidates references got by [] before.
  void push(T value) {
    if (size_ == all_.size()) grow();
    (*this)[size_++] = std::move(value);
  }
  void pop() {
    first_ = (first_ + 1) & (all_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> more(all_.empty() ? 16 : 2 * all_.size());  // powers of two
    for (size_t i = 0; i < size_; ++i) more[i] = std::move((*this)[i]);
    all_ = std::move(more);
    first_ = 0;
  }

  std::vector<T> all_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace tutti::ucx
