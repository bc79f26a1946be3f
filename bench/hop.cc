#include "bench/hop.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "bench/cores.h"

namespace tutti::bench {
namespace {

// The smallest of several short chunks: an interrupt spoils a chunk, not the figure.
constexpr uint64_t chunks = 8;
constexpr uint64_t round_trips = 40;

struct Table {
  alignas(128) std::atomic<uint64_t> ping{0};
  alignas(128) std::atomic<uint64_t> pong{0};
};

void wait_for(const std::atomic<uint64_t>& flag, uint64_t value) {
  for (int spins = 0; flag.load(std::memory_order_acquire) < value;)
    if (++spins > 100000) sched_yield();
}

void answer(Table& table, int cpu) {
  bind_to_cpu(cpu);
  for (uint64_t trip = 1; trip <= (chunks + 1) * round_trips; ++trip) {
    wait_for(table.ping, trip);
    table.pong.store(trip, std::memory_order_release);
  }
}

double ask(Table& table, int cpu) {
  using Clock = std::chrono::steady_clock;
  bind_to_cpu(cpu);
  double best = 0;
  uint64_t trip = 0;
  for (uint64_t chunk = 0; chunk <= chunks; ++chunk) {
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < round_trips; ++i) {
      table.ping.store(++trip, std::memory_order_release);
      wait_for(table.pong, trip);
    }
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    if (chunk == 1 || (chunk > 1 && ns < best)) best = ns;  // chunk 0 waits for the other thread
  }
  return best / double(2 * round_trips);
}

}  // namespace

double measure_hop_ns() {
  const auto& cores = usable_cores();
  if (cores.size() < 2) return 0;
  Table table;
  double hop = 0;
  // Both bind themselves, so the caller's own binding stays.
  std::thread other([&] { answer(table, cores[1]); });
  std::thread one([&] { hop = ask(table, cores[0]); });
  one.join();
  other.join();
  return hop;
}

}  // namespace tutti::bench
