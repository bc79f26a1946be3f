// The ranks of a comparison: processes that the tool forks, with memory that all of them map.
// Nothing here calls the library, as two builds of it are loaded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tutti::bench::builds {

// What the ranks share; zero at first.
struct Meeting {
  alignas(128) std::atomic<uint32_t> arrived;
  alignas(128) std::atomic<uint32_t> generation;  // of the barrier
  std::atomic<uint32_t> sleepers;                 // in the barrier
  alignas(128) std::atomic<uint32_t> gate;        // ranks sleep on it while rank 0 works alone
  alignas(128) std::atomic<uint32_t> failed;      // 1: a rank failed, no rank waits any longer
  static constexpr size_t block_bytes = 4096;
  struct alignas(128) Place {
    double values[2];  // used in turn
    unsigned char block[block_bytes];
  };
  Place places[];  // one per rank
};

// One rank's view of the team.
class Member {
 public:
  Member(Meeting* meeting, int rank, int nranks, bool crowded)
      : meeting_(meeting), rank_(rank), nranks_(nranks), crowded_(crowded) {}
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  bool first() const { return rank_ == 0; }

  // Collective, as all that follow. Throw Failure once a rank has failed.
  void barrier();
  double max(double value);
  // `all` has nranks * bytes, in rank order.
  void allgather(const void* mine, void* all, size_t bytes);
  // Rank 0 runs `work` while the others sleep in the kernel.
  void alone(const std::function<void()>& work);

 private:
  void check_failed() const;

  Meeting* meeting_;
  int rank_;
  int nranks_;
  bool crowded_;  // more ranks than cores
  size_t maxima_ = 0;
};

// Forks `nranks` processes, bound to cores, several to one where there are too few, runs `body` in
// each and waits for all. Throws Failure if one of them failed; that one has printed the cause on
// stderr.
void run_team(int nranks, const std::function<void(Member&)>& body);

// Anonymous memory that forked processes share, zero at first; lives until the program ends.
void* map_shared(size_t bytes);

}  // namespace tutti::bench::builds
