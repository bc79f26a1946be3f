#include "lib/base/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

namespace {

constexpr size_t huge_bytes = 2u << 20;

std::string mebibytes(size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Whether a page that is not to be had when it is first used would end the process (SIGBUS):
// where touch() cannot get it before, and where the system holds every page against a limit.
bool allocates_at_once() {
  static const bool does = [] {
    if (madvise(nullptr, 0, MADV_POPULATE_WRITE) != 0) return true;
    const Fd file(open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = '0';
    return file && read(file.get(), &mode, 1) == 1 && mode == '2';
  }();
  return does;
}

Status cannot_allocate(size_t bytes, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EFAULT;
  return system_error("cannot allocate " + mebibytes(bytes) + " MiB of shared memory",
                      full ? ENOMEM : error_number);
}

Status allocate(const Fd& memory, size_t bytes) {
  while (fallocate(memory.get(), 0, 0, off_t(bytes)) != 0) {
    if (errno == EOPNOTSUPP) return {};
    if (errno != EINTR) return cannot_allocate(bytes, errno);
  }
  return {};
}

// Null where the system has too few. All are allocated here: a process that is not allowed one that
// is reserved, by its control group or its NUMA nodes, would be ended (SIGBUS) when it uses that.
Fd make_huge(size_t bytes) {
  Fd memory(memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  if (memory && (ftruncate(memory.get(), off_t(bytes)) != 0 || !allocate(memory, bytes).ok())) {
    memory.reset();
  }
  return memory;
}

Status seal(Fd memory, Fd* out) {
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal shared memory", errno);
  }
  *out = std::move(memory);
  return {};
}

size_t page_bytes(const Fd& memory) {
  struct statfs found {};
  const bool huge = fstatfs(memory.get(), &found) == 0 && found.f_type == HUGETLBFS_MAGIC;
  return huge ? size_t(found.f_bsize) : size_t(sysconf(_SC_PAGESIZE));
}

std::shared_ptr<void> unmapped_at_end(void* base, size_t bytes) {
  return {base, [bytes](void* p) { munmap(p, bytes); }};
}

}  // namespace

Status check_file_size(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return {};
  return {TUTTI_NO_MEMORY, mebibytes(bytes) +
                               " MiB of memory in a file cannot be had: files of this process may "
                               "be no longer than " +
                               std::to_string(limit.rlim_cur >> 10) + " KiB (ulimit -f)"};
}

Status touch(std::byte* at, size_t bytes) {
  const size_t before = reinterpret_cast<uintptr_t>(at) % size_t(sysconf(_SC_PAGESIZE));
  // EINVAL: a kernel before 5.14; then pages come when they are used.
  if (madvise(at - before, bytes + before, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return {};
  return cannot_allocate(bytes, errno);
}

Status make_memory(size_t bytes, Fd* out) {
  if (bytes >= huge_bytes) {
    bytes = round_up(bytes, huge_bytes);
    TUTTI_TRY(check_file_size(bytes));
    Fd memory = make_huge(bytes);
    if (memory) return seal(std::move(memory), out);
  }
  return make_memory("tutti", bytes, out);
}

Status make_memory(const char* name, size_t bytes, Fd* out) {
  TUTTI_TRY(check_file_size(bytes));
  Fd memory(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_error("cannot make shared memory (memfd)", errno);
  if (ftruncate(memory.get(), off_t(bytes)) != 0) {
    return system_error("cannot size " + mebibytes(bytes) + " MiB of shared memory", errno);
  }
  if (allocates_at_once()) TUTTI_TRY(allocate(memory, bytes));
  return seal(std::move(memory), out);
}

Status map_memory(const Fd& memory, const Extent& extent, Mapping* out) {
  struct stat found {};
  if (fstat(memory.get(), &found) != 0) return system_error("cannot look at shared memory", errno);
  if (uint64_t(found.st_size) < extent.offset ||
      uint64_t(found.st_size) - extent.offset < extent.bytes) {
    return {TUTTI_CORRUPT, "shared memory of a rank is smaller than it must be"};
  }
  const size_t page = page_bytes(memory);
  const uint64_t begin = extent.offset / page * page;
  const size_t length = round_up(extent.offset + extent.bytes - begin, page);
  void* base =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), off_t(begin));
  if (base == MAP_FAILED) {
    return system_error("cannot map " + mebibytes(length) + " MiB of shared memory", errno);
  }
  out->owner = unmapped_at_end(base, length);
  out->base = static_cast<std::byte*>(base) + (extent.offset - begin);
  madvise(base, length, MADV_HUGEPAGE);  // where the host allows it
  return {};
}

Status map_private(size_t bytes, Mapping* out) {
  const size_t length =
      round_up(bytes, bytes >= huge_bytes ? huge_bytes : size_t(sysconf(_SC_PAGESIZE)));
  void* base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return system_error("cannot allocate " + mebibytes(length) + " MiB of memory", errno);
  }
  out->owner = unmapped_at_end(base, length);
  out->base = static_cast<std::byte*>(base);
  madvise(base, length, MADV_HUGEPAGE);
  return touch(out->base, length);
}

}  // namespace tutti
