// Where the ranks of a team meet before each call that is timed, and leave at one moment, which one
// of them names: in memory that the controller shares among them. The same for every
// implementation. Behind a barrier a call would be timed by who leaves that first: where rank 0
// does, a broadcast from rank 0 seems to take next to nothing, and where another does, a hop
// longer.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace tutti::bench {

class Gate {
 public:
  static size_t bytes(int nranks) { return size_t(nranks) * sizeof(Line); }

  // Of a file of so many bytes, all zero at first; not owned. opened() is false where it cannot be
  // mapped.
  Gate(int fd, int rank, int nranks)
      : rank_(rank),
        nranks_(nranks),
        // More ranks than processors: who waits is in the way.
        looks_(nranks > sysconf(_SC_NPROCESSORS_ONLN) ? 1 : 2000) {
    void* const at = mmap(nullptr, bytes(nranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) lines_ = static_cast<Line*>(at);
  }
  ~Gate() {
    if (lines_ != nullptr) munmap(lines_, bytes(nranks_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  bool opened() const { return lines_ != nullptr; }
  // Returns when all ranks have called it equally often, on all at the same time, to the exactness
  // of the clock.
  void pass() {
    Line& own = lines_[rank_];
    ++epoch_;
    if (rank_ == 0) {
      for (int peer = 1; peer < nranks_; ++peer) await(lines_[peer].passed);
      own.leaves_ns = now_ns() + notice_ns;
    }
    own.passed.store(epoch_, std::memory_order_release);
    if (rank_ != 0) await(lines_[0].passed);
    const uint64_t leaves_ns = lines_[0].leaves_ns;
    while (now_ns() < leaves_ns) {
    }
  }

 private:
  // In which all others learn of the moment: some times what a line takes from core to core.
  static constexpr uint64_t notice_ns = 1500;

  struct alignas(128) Line {  // processors fetch lines in pairs
    std::atomic<uint64_t> passed;
    uint64_t leaves_ns;  // rank 0's
  };
  void await(const std::atomic<uint64_t>& passed) const {
    for (uint64_t looks = 1; passed.load(std::memory_order_acquire) < epoch_; ++looks)
      if (looks >= looks_) sched_yield();
  }

  int rank_, nranks_;
  uint64_t looks_;
  uint64_t epoch_ = 0;
  Line* lines_ = nullptr;
};

}  // namespace tutti::bench
