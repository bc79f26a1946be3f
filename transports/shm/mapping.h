// Anonymous memory for a segment, shared or private to the process, mapped and ready to use.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/fd.h"
#include "lib/status.h"

namespace tutti::shm {

struct Mapping {
  std::shared_ptr<void> owner;  // unmaps with its last copy
  std::byte* base = nullptr;
};

// A memfd of `bytes` zero bytes, sealed against resizing. NO_MEMORY when the host has not as much.
Status make_memory(size_t bytes, Fd* out);
// Maps it for reading and writing and, up to a bound, touches every page.
Status map_memory(const Fd& memory, size_t bytes, Mapping* out);

}  // namespace tutti::shm
