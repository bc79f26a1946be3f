// Memory that all ranks of one host map, made by the benchmark itself, for what it measures without
// the library: the limit, and waits that use no CPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/rank.h"

namespace tutti::bench {

class SharedMap {
 public:
  // Collective. Null on all ranks if one of them cannot map it: other hosts, too little memory.
  // Each rank gets an input and an output of `bytes`, first touched by their owner; 0: none.
  static std::unique_ptr<SharedMap> create(const Rank& me, size_t bytes);
  ~SharedMap();
  SharedMap(const SharedMap&) = delete;
  SharedMap& operator=(const SharedMap&) = delete;

  unsigned char* input(int rank) const { return vector(2 * rank); }
  unsigned char* output(int rank) const { return vector(2 * rank + 1); }
  // Two staging slots per rank, used in turn. Longer vectors gain nothing by them.
  static constexpr size_t slot_bytes = 256 << 10;
  unsigned char* slot(int rank, unsigned turn) const {
    return base_ + lines_bytes() + (size_t(rank) * 2 + turn % 2) * slot_bytes;
  }

  // A rank's flag on one cache line, and on another line two cells, used in turn, each a flag with
  // a payload beside it; zero at first.
  struct alignas(32) Cell {
    uint64_t flag;
    unsigned char payload[24];
  };
  struct alignas(128) Line {
    std::atomic<uint64_t> flag;
    alignas(64) Cell cells[2];
  };
  Line& line(int rank) const { return reinterpret_cast<Line*>(base_)[rank]; }

  // Rank 0 runs `work` while the others sleep in the kernel; all return when it is done.
  template <class Work>
  void alone(const Rank& me, Work work) {
    me.barrier();
    if (me.first()) {
      work();
      release();
    } else {
      wait_released();
    }
  }

 private:
  SharedMap(int nranks, size_t bytes) : nranks_(nranks), bytes_(bytes) {}
  size_t lines_bytes() const { return size_t(nranks_ + 1) * sizeof(Line); }
  size_t head_bytes() const;
  size_t vector_stride() const;
  size_t total_bytes() const { return head_bytes() + 2 * size_t(nranks_) * vector_stride(); }
  unsigned char* vector(int index) const {
    return base_ + head_bytes() + size_t(index) * vector_stride();
  }
  bool make(int* fd) const;
  bool map(int fd);
  void touch(int rank);
  std::atomic<uint32_t>& gate() const;
  void release();
  void wait_released();

  int nranks_;
  size_t bytes_;
  unsigned char* base_ = nullptr;
  uint32_t seen_ = 0;
};

}  // namespace tutti::bench
