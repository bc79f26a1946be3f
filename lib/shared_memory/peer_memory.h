// Reading what other processes of the host have in their own memory, with one copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::shared {

// A process, and a number that stands in its memory. After an exec() the process is there still,
// but not the number.
struct PeerProcess {
  int32_t pid = 0;
  uint64_t nonce_address = 0;
  uint64_t nonce = 0;
};

// process_vm_readv(2), as a whole. Returns 0, or the errno with which it failed: EPERM where the
// host does not let this process look into that one, ESRCH when it is gone or runs another program,
// EFAULT where it has no such memory (any more). `peer` may be this process.
int read_process(const PeerProcess& peer, const void* from, void* to, size_t bytes);

}  // namespace tutti::shared
