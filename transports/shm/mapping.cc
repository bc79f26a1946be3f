#include "transports/shm/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace tutti::shm {

namespace {

// What fits is allocated and touched when the communicator is made, so that neither the first call
// nor a later one pays for it or meets the end of memory; the rings of very many ranks are not.
constexpr size_t populate_limit = 256u << 20;

std::string mebibytes(size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

}  // namespace

Status make_memory(size_t bytes, Fd* out) {
  Fd memory(memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_error("cannot make shared memory (memfd)", errno);
  if (ftruncate(memory.get(), off_t(bytes)) != 0) {
    return system_error("cannot size " + mebibytes(bytes) + " MiB of shared memory", errno);
  }
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal shared memory", errno);
  }
  *out = std::move(memory);
  return {};
}

Status map_memory(const Fd& memory, size_t bytes, Mapping* out) {
  struct stat found {};
  if (fstat(memory.get(), &found) != 0) return system_error("cannot look at shared memory", errno);
  if (size_t(found.st_size) < bytes) {
    return {TUTTI_CORRUPT, "the shared memory of the communicator is smaller than it must be"};
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) {
    return system_error("cannot map " + mebibytes(bytes) + " MiB of shared memory", errno);
  }
  out->owner = std::shared_ptr<void>(base, [bytes](void* p) { munmap(p, bytes); });
  out->base = static_cast<std::byte*>(base);
  madvise(base, bytes, MADV_HUGEPAGE);  // where the host allows it
  if (bytes <= populate_limit && madvise(base, bytes, MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL) {  // EINVAL: a kernel before 5.14; then pages come when they are touched
    const int error = errno == EFAULT || errno == ENOSPC ? ENOMEM : errno;
    return system_error("cannot allocate " + mebibytes(bytes) + " MiB of shared memory", error);
  }
  return {};
}

}  // namespace tutti::shm
