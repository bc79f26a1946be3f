// The fake driver's counters, for tests.
#pragma once

#include <dlfcn.h>

#include <cstdint>

// Counts of this process since it started.
struct FakeCudaCounts {
  uint64_t allocations;  // of any kind of memory
  uint64_t frees;
  uint64_t created;           // streams, events, graphs
  uint64_t synchronisations;  // calls that waited for a stream, or might have
  uint64_t launches, copies, waits;
  uint64_t freed_while_imported;  // memory that another process still had open: a bug
};

// Whether the driver found is the fake one. Does not initialise it.
inline bool driver_is_fake() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr && dlsym(library, "fake_cuda_counts") != nullptr;
}

// All 0 where the driver is not the fake one.
inline FakeCudaCounts fake_cuda_counts_now() {
  FakeCudaCounts counts{};
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return counts;
  using Get = void (*)(FakeCudaCounts*);
  if (const auto get = reinterpret_cast<Get>(dlsym(library, "fake_cuda_counts"))) get(&counts);
  dlclose(library);
  return counts;
}
