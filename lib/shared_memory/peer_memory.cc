#include "lib/shared_memory/peer_memory.h"

#include <sys/uio.h>

#include <cerrno>

namespace tutti::shared {

namespace {

iovec stretch(uint64_t address, size_t bytes) { return {reinterpret_cast<void*>(address), bytes}; }

bool has_nonce(const PeerProcess& peer) {
  uint64_t found = 0;
  const iovec remote = stretch(peer.nonce_address, sizeof(found)), local{&found, sizeof(found)};
  return process_vm_readv(peer.pid, &local, 1, &remote, 1, 0) == ssize_t(sizeof(found)) &&
         found == peer.nonce;
}

}  // namespace

// The number is read together with the data: one call sees the memory of one program.
int read_process(const PeerProcess& peer, const void* from, void* to, size_t bytes) {
  auto* source = const_cast<char*>(static_cast<const char*>(from));
  auto* target = static_cast<char*>(to);
  uint64_t found = 0;
  while (bytes > 0) {
    const iovec remote[] = {{source, bytes}, stretch(peer.nonce_address, sizeof(found))};
    const iovec local[] = {{target, bytes}, {&found, sizeof(found)}};
    const ssize_t got = process_vm_readv(peer.pid, local, 2, remote, 2, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int error = got < 0 ? errno : EFAULT;
      return error == EFAULT && !has_nonce(peer) ? ESRCH : error;
    }
    if (size_t(got) >= bytes) {
      const bool whole = size_t(got) == bytes + sizeof(found);
      return whole && found == peer.nonce ? 0 : ESRCH;
    }
    source += got;
    target += got;
    bytes -= size_t(got);
  }
  return 0;
}

}  // namespace tutti::shared
