// A ring buffer: memory that is reserved and released in the same order.
#pragma once

#include <cstddef>
#include <memory>

namespace tutti::ucx {

class Ring {
 public:
  explicit Ring(size_t bytes) : size_(bytes) {}

  // `taken`: how much of the ring it takes, to be passed to release().
  struct Reservation {
    std::byte* at = nullptr;  // nullptr: there is no room now
    size_t taken = 0;
  };
  // Contiguous, on cache lines of its own.
  Reservation reserve(size_t bytes) {
    if (memory_ == nullptr) {
      memory_.reset(new (std::align_val_t(line)) std::byte[size_]);
    }
    bytes = (bytes + line - 1) & ~(line - 1);
    if (used_ == 0) tail_ = 0;  // reuses the memory that is likely in the cache
    const bool wraps = tail_ + bytes > size_;
    const size_t skipped = wraps ? size_ - tail_ : 0;
    if (used_ + skipped + bytes > size_) return {};
    if (wraps) tail_ = 0;
    const Reservation place{memory_.get() + tail_, skipped + bytes};
    tail_ += bytes;
    used_ += place.taken;
    return place;
  }
  void release(size_t taken) { used_ -= taken; }

 private:
  static constexpr size_t line = 64;
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t(line));
    }
  };

  size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
  size_t tail_ = 0;
  size_t used_ = 0;
};

}  // namespace tutti::ucx
