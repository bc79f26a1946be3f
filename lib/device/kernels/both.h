// What differs between a GPU and the host, so that the kernels are written once for both. On the
// host a kernel is one block of one thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "lib/device/abi.h"

#ifdef __CUDACC__
#define TUTTI_ON_BOTH __host__ __device__ inline
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_DO_NOT_UNROLL _Pragma("unroll 1")
#else
#define TUTTI_ON_BOTH inline
#define TUTTI_UNROLL
#define TUTTI_DO_NOT_UNROLL
#endif

namespace tutti::device {

// The threads of a kernel and which of them this one is.
struct Team {
  uint32_t thread, threads;  // of the block
  uint32_t block, blocks;

  TUTTI_ON_BOTH uint64_t first() const { return uint64_t{block} * threads + thread; }
  TUTTI_ON_BOTH uint64_t stride() const { return uint64_t{blocks} * threads; }
  // A barrier: what any thread of the block wrote before, all of them see afterwards.
  TUTTI_ON_BOTH void synchronise() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
};

template <class To, class From>
TUTTI_ON_BOTH To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// A fence for all GPUs and hosts: whoever sees what this thread writes afterwards also sees what it
// wrote before, and what it had seen of others' writes.
TUTTI_ON_BOTH void fence_system() {
#ifdef __CUDA_ARCH__
  __threadfence_system();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

TUTTI_ON_BOTH void set_bits(uint32_t* word, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr_system(word, bits);
#else
  __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
#endif
}

TUTTI_ON_BOTH void clear_bits(uint32_t* word, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicAnd_system(word, ~bits);
#else
  __atomic_fetch_and(word, ~bits, __ATOMIC_SEQ_CST);
#endif
}

// For words that the host and a running kernel both access.
template <class Word>
TUTTI_ON_BOTH Word load_shared(const Word* word) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile Word*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_SEQ_CST);
#endif
}
template <class Word>
TUTTI_ON_BOTH void store_shared(Word* word, Word value) {
#ifdef __CUDA_ARCH__
  *static_cast<volatile Word*>(word) = value;
#else
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
#endif
}

// A minimum, in a word that the threads of a block share.
TUTTI_ON_BOTH void lower_to(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicMin(word, value);
#else
  if (value < *word) *word = value;
#endif
}

// Counts the blocks that are done; true for the last one, which resets the count to 0.
TUTTI_ON_BOTH bool arrives_last(uint32_t* arrived, uint32_t blocks) {
#ifdef __CUDA_ARCH__
  return atomicInc(arrived, blocks - 1) == blocks - 1;
#else
  return blocks == 1 || __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST) == blocks;
#endif
}

// A GPU faults on a misaligned address; this makes tests on the host find it too.
template <class T>
TUTTI_ON_BOTH void refuse_misaligned(Address address) {
#ifndef __CUDA_ARCH__
  if (address % alignof(T) != 0) __builtin_trap();
#endif
}

// A single access on a GPU; `address` must be in global memory, aligned to T.
template <class T>
TUTTI_ON_BOTH T load(Address address) {
#ifdef __CUDA_ARCH__
  return *static_cast<const T*>(__cvta_global_to_generic(address));
#else
  refuse_misaligned<T>(address);
  T value;
  memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
  return value;
#endif
}
template <class T>
TUTTI_ON_BOTH void store(Address address, const T& value) {
#ifdef __CUDA_ARCH__
  *static_cast<T*>(__cvta_global_to_generic(address)) = value;
#else
  refuse_misaligned<T>(address);
  memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
#endif
}

// Of any alignment, a byte at a time.
template <class T>
TUTTI_ON_BOTH T load_bytes(Address address) {
  uint8_t bytes[sizeof(T)];
  TUTTI_UNROLL
  for (uint32_t i = 0; i < sizeof(T); ++i) bytes[i] = load<uint8_t>(address + i);
  T value;
  memcpy(&value, bytes, sizeof(T));
  return value;
}
template <class T>
TUTTI_ON_BOTH void store_bytes(Address address, const T& value) {
  uint8_t bytes[sizeof(T)];
  memcpy(bytes, &value, sizeof(T));
  TUTTI_UNROLL
  for (uint32_t i = 0; i < sizeof(T); ++i) store<uint8_t>(address + i, bytes[i]);
}

// 16 bytes, which a GPU reads and writes in one access.
struct alignas(16) Packet {
  uint32_t word[4];
};
constexpr uint32_t packet_bytes = sizeof(Packet);

}  // namespace tutti::device
