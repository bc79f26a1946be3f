// The vectors of one rank: plain heap memory, touched by its owner, with a guard behind the output.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace tutti::bench {

class Buffers {
 public:
  explicit Buffers(size_t bytes)
      : bytes_(bytes),
        send_(new unsigned char[bytes + guard]),
        recv_(new unsigned char[bytes + guard]) {
    std::memset(send_.get(), 0, bytes + guard);
    std::memset(recv_.get(), poison, bytes + guard);
  }
  unsigned char* send() const { return send_.get(); }
  unsigned char* recv() const { return recv_.get(); }
  void poison_output(size_t at, size_t bytes) const {
    std::memset(recv_.get() + at, poison, bytes);
  }
  // Bytes behind the end of the output that somebody wrote.
  size_t broken_guard() const {
    size_t broken = 0;
    for (size_t i = 0; i < guard; ++i) broken += recv_[bytes_ + i] != poison;
    return broken;
  }

 private:
  static constexpr size_t guard = 64;
  static constexpr unsigned char poison = 0xcb;
  size_t bytes_;
  std::unique_ptr<unsigned char[]> send_, recv_;
};

}  // namespace tutti::bench
