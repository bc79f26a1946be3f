// The building blocks of the loops over mapped memory.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bench/rank.h"
#include "bench/shared_map.h"

// Function multiversioning (ifunc); ThreadSanitizer does not support the resolvers.
#if defined(__SANITIZE_THREAD__)
#define TUTTI_CLONES
#else
#define TUTTI_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#endif

namespace tutti::bench {

constexpr size_t line_bytes = 64;
constexpr size_t block_floats = 512;  // of the blocks in which inputs are added, in the L1 cache
constexpr size_t streaming_from = size_t(1) << 20;

// Blocks of smaller elements may leave a float32 unaligned.
using AnyFloat [[gnu::aligned(1)]] = float;
// Elements are added as float32 whatever the type: the traffic is what counts.
void add_to(float* sum, const AnyFloat* a, size_t n);
void add_two_to(float* sum, const AnyFloat* a, const AnyFloat* b, size_t n);
// Copies with non-temporal stores where `out` is aligned; end with stream_fence().
inline void stream(float* out, const AnyFloat* in, size_t n) {
  size_t i = 0;
#if defined(__SSE2__)
  for (; i + 4 <= n && reinterpret_cast<uintptr_t>(out) % 16 == 0; i += 4)
    _mm_stream_ps(out + i, _mm_loadu_ps(in + i));
#endif
  std::memcpy(out + i, in + i, (n - i) * sizeof(float));
}
void stream_fence();

// Stores a flag and its payload in one store if the processor can: otherwise a polling reader may
// fetch the cache line between the two stores. `from` has as many bytes as the payload.
void publish(SharedMap::Cell* to, uint64_t flag, const void* from);

// Spins, then yields, until the flag has reached the epoch. Throws after a while.
class Patience {
 public:
  explicit Patience(int nranks);
  template <class Flag>
  void await(const Flag& flag, uint64_t epoch) {
    for (uint64_t spins = 0; flag.load(std::memory_order_acquire) < epoch; ++spins)
      if (spins >= spins_) yield(spins);
  }

 private:
  void yield(uint64_t spins);
  uint64_t spins_;
  std::chrono::steady_clock::time_point since_;
};

class Flags {
 public:
  Flags(SharedMap& map, int rank, int nranks, uint64_t* epoch)
      : map_(map), rank_(rank), nranks_(nranks), epoch_(*epoch), patience_(nranks) {}
  // A barrier: returns when all ranks have called it equally often.
  void exchange() {
    announce();
    for (int peer = 0; peer < nranks_; ++peer)
      if (peer != rank_) await(peer);
  }
  void announce() { map_.line(rank_).flag.store(++epoch_, std::memory_order_release); }
  void await(int peer) { patience_.await(map_.line(peer).flag, epoch_); }
  uint64_t epoch() const { return epoch_; }

 private:
  SharedMap& map_;
  int rank_;
  int nranks_;
  uint64_t& epoch_;  // shared by all ways of a rank, as are the lines
  Patience patience_;
};

}  // namespace tutti::bench
