// Reading what other processes of the host have in their own memory, with one copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::shared {

// process_vm_readv(2), as a whole. Returns 0, or the errno with which it failed: EPERM where the
// host does not let this process look into that one, ESRCH when it is gone, EFAULT where it has no
// such memory (any more). `pid` may be this process.
int read_process(int32_t pid, const void* from, void* to, size_t bytes);

}  // namespace tutti::shared
