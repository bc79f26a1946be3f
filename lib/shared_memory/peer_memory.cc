#include "lib/shared_memory/peer_memory.h"

#include <sys/uio.h>

#include <cerrno>

namespace tutti::shared {

int read_process(int32_t pid, const void* from, void* to, size_t bytes) {
  auto* source = const_cast<char*>(static_cast<const char*>(from));
  auto* target = static_cast<char*>(to);
  while (bytes > 0) {
    const iovec remote{source, bytes}, local{target, bytes};
    const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EFAULT;
    source += got;
    target += got;
    bytes -= size_t(got);
  }
  return 0;
}

}  // namespace tutti::shared
