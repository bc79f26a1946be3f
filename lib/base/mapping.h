// Anonymous memory for a segment, shared or private to the process, mapped and ready to use.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti {

struct Mapping {
  std::shared_ptr<void> owner;  // unmaps with its last copy
  std::byte* base = nullptr;
};

// A memfd of at least `bytes` zero bytes, sealed against resizing; of huge pages when it is long
// enough and the host has reserved some. NO_MEMORY when the host does not have so much, or the
// process may not. No use of it ends the process for want of memory, but where the kernel does that
// to any process (by its OOM killer).
Status make_memory(size_t bytes, Fd* out);
// The same in pages of the usual size; /proc shows the name.
Status make_memory(const char* name, size_t bytes, Fd* out);

// NO_MEMORY if files of this process may not be so long: the kernel would not refuse to make one
// so, but end the process by a signal.
Status check_file_size(size_t bytes);

struct Extent {
  uint64_t offset = 0;  // need not be aligned
  size_t bytes = 0;
};
// Maps that part for reading and writing.
Status map_memory(const Fd& memory, const Extent& extent, Mapping* out);
// Touches every page of [at, at + bytes), so that no call takes page faults there or runs out of
// memory. Pages that nobody has touched yet are allocated on the caller's NUMA node.
Status touch(std::byte* at, size_t bytes);
// Memory of this process alone, all pages touched.
Status map_private(size_t bytes, Mapping* out);

}  // namespace tutti
