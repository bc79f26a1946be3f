// Accesses to memory that ranks share: the atomic words, and stretches of plain bytes. The library
// compiles them to the bare operations. With TUTTI_SIMULATED an observer sees each one: it lets
// other ranks move in between, gives a load any value that the memory model allows, and finds data
// races: plain accesses that no release and acquire order (tests/simulation).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/cache.h"

namespace tutti::slots {

#ifdef TUTTI_SIMULATED
class Observer {
 public:
  virtual ~Observer() = default;
  // Before each access to an atomic word: others may move.
  virtual void step(const void* word) = 0;
  // The value that the load gives; `latest` is what the word holds.
  virtual uint64_t load(const void* word, uint64_t latest, std::memory_order order) = 0;
  virtual void store(const void* word, uint64_t before, uint64_t value,
                     std::memory_order order) = 0;
  // An atomic read-modify-write, sequentially consistent.
  virtual void exchanged(const void* word, uint64_t before, uint64_t value) = 0;
  virtual void fence(std::memory_order order) = 0;
  // Plain bytes are about to be read, or written.
  virtual void reads(const void* at, size_t bytes) = 0;
  virtual void writes(const void* at, size_t bytes) = 0;
  // Plain bytes are about to be read that their owner may be writing.
  virtual void reads_racing(const void* at, size_t bytes) = 0;
};
inline Observer* observer = nullptr;  // null: nothing is simulated
#endif

template <class Word>
[[gnu::always_inline]] inline Word load(const std::atomic<Word>& word, std::memory_order order) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) {
    observer->step(&word);
    return Word(observer->load(&word, word.load(std::memory_order_relaxed), order));
  }
#endif
  return word.load(order);
}

template <class Word>
[[gnu::always_inline]] inline void store(std::atomic<Word>& word, Word value,
                                         std::memory_order order) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) {
    observer->step(&word);
    observer->store(&word, word.load(std::memory_order_relaxed), value, order);
  }
#endif
  word.store(value, order);
}

// Sequentially consistent.
template <class Word>
inline Word exchange(std::atomic<Word>& word, Word value) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->step(&word);
#endif
  const Word before = word.exchange(value);
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->exchanged(&word, before, value);
#endif
  return before;
}
template <class Word>
inline bool compare_exchange(std::atomic<Word>& word, Word expected, Word value) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->step(&word);
#endif
  const Word wanted = expected;
  const bool done = word.compare_exchange_strong(expected, value);
#ifdef TUTTI_SIMULATED
  if (observer != nullptr && done) observer->exchanged(&word, wanted, value);
  if (observer != nullptr && !done) observer->load(&word, expected, std::memory_order_seq_cst);
#endif
  (void)wanted;
  return done;
}

[[gnu::always_inline]] inline void fence(std::memory_order order) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->fence(order);
#endif
  std::atomic_thread_fence(order);
}

// To be called before `bytes` plain bytes at `at` are read; will_write(): before they are written.
[[gnu::always_inline]] inline void will_read(const void* at, size_t bytes) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->reads(at, bytes);
#endif
  (void)at;
  (void)bytes;
}
// As will_read(), for bytes that their owner may be writing: what is read is valid only if a flag,
// loaded after an acquire fence, says that they were not being written.
[[gnu::always_inline]] inline void will_read_racing(const void* at, size_t bytes) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->reads_racing(at, bytes);
#endif
  (void)at;
  (void)bytes;
}
[[gnu::always_inline]] inline void will_write(const void* at, size_t bytes) {
#ifdef TUTTI_SIMULATED
  if (observer != nullptr) observer->writes(at, bytes);
#endif
  (void)at;
  (void)bytes;
}

// Prefetches lines for writing (PREFETCHW): other cores' caches, which have read them, give them up
// meanwhile.
inline void prefetch_for_write(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += line_bytes) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(at[i]));
#else
    __builtin_prefetch(at + i, 1);
#endif
  }
}

}  // namespace tutti::slots
