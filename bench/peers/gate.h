// Where the ranks of a team meet before each call that is timed: flags in memory that the
// controller shares among them. The same for every implementation. Behind an implementation's own
// barrier a call would be timed by who leaves that first: behind one that rank 0 leaves first, a
// broadcast from rank 0 seems to take next to nothing.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

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
  // Returns when all ranks have called it equally often.
  void pass() {
    lines_[rank_].passed.store(++epoch_, std::memory_order_release);
    for (int peer = 0; peer < nranks_; ++peer) {
      for (uint64_t looks = 1; lines_[peer].passed.load(std::memory_order_acquire) < epoch_;
           ++looks)
        if (looks >= looks_) sched_yield();
    }
  }

 private:
  struct alignas(128) Line {  // processors fetch lines in pairs
    std::atomic<uint64_t> passed;
  };
  int rank_, nranks_;
  uint64_t looks_;
  uint64_t epoch_ = 0;
  Line* lines_ = nullptr;
};

}  // namespace tutti::bench
