// Owns a file descriptor.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace tutti {

// The open descriptors that are not for children (process::keep_from_children()).
class FdMarks {
 public:
  void set(int fd) {
    if (fd < 0 || fd >= most) return;
    words_[size_t(fd) / 64].fetch_or(bit(fd));
    int highest = highest_.load();
    while (highest < fd && !highest_.compare_exchange_weak(highest, fd)) continue;
  }
  void clear(int fd) {
    if (fd < 0 || fd >= most) return;
    std::atomic<uint64_t>& word = words_[size_t(fd) / 64];
    if ((word.load(std::memory_order_relaxed) & bit(fd)) != 0) word.fetch_and(~bit(fd));
  }
  // Clears them, and calls `each` with every one that was marked.
  template <class Each>
  void take_all(Each&& each) {
    for (int first = 0; first <= highest_.load(); first += 64) {
      for (uint64_t word = words_[size_t(first) / 64].exchange(0); word != 0; word &= word - 1) {
        each(first + __builtin_ctzll(word));
      }
    }
  }

 private:
  static constexpr int most = 1 << 20;  // those above are not marked
  static uint64_t bit(int fd) { return uint64_t{1} << (fd % 64); }
  std::array<std::atomic<uint64_t>, most / 64> words_{};
  std::atomic<int> highest_{-1};
};
inline constinit FdMarks fd_marks;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    fd_marks.clear(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti
