#include "bench/limit_loops.h"

#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "bench/cores.h"
#include "bench/error.h"

namespace tutti::bench {
namespace {

// If ranks share cores, the peer may be waiting for this rank's core.
constexpr uint64_t spins_on_own_core = 2000;
constexpr uint64_t spins_on_shared_core = 20;
constexpr auto longest_wait = std::chrono::seconds(30);

#if defined(__x86_64__)
[[gnu::target("avx")]] void publish_at_once(SharedMap::Cell* to, uint64_t flag,
                                            const int64_t (&payload)[3]) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                     _mm256_set_epi64x(payload[2], payload[1], payload[0], int64_t(flag)));
}
const bool at_once = __builtin_cpu_supports("avx");
#else
constexpr bool at_once = false;
void publish_at_once(SharedMap::Cell*, uint64_t, const int64_t (&)[3]) {}
#endif

}  // namespace

TUTTI_CLONES void add_to(float* sum, const AnyFloat* a, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] += a[i];
}

TUTTI_CLONES void add_two_to(float* sum, const AnyFloat* a, const AnyFloat* b, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void publish(SharedMap::Cell* to, uint64_t flag, const void* from) {
  int64_t payload[3];
  static_assert(sizeof payload == sizeof to->payload);
  std::memcpy(payload, from, sizeof payload);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (at_once) return publish_at_once(to, flag, payload);
  std::memcpy(to->payload, payload, sizeof payload);
  std::atomic_ref(to->flag).store(flag, std::memory_order_release);
}

Patience::Patience(int nranks)
    : spins_(size_t(nranks) <= usable_cores().size() ? spins_on_own_core : spins_on_shared_core) {}

void Patience::yield(uint64_t spins) {
  sched_yield();
  if (spins == spins_) since_ = std::chrono::steady_clock::now();
  if (spins % 1024 == 0 && std::chrono::steady_clock::now() - since_ > longest_wait)
    throw Failure("measuring the limit: another rank does not come");
}

}  // namespace tutti::bench
