#include "bench/shared_map.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string>

#include "bench/error.h"

namespace tutti::bench {
namespace {

constexpr size_t huge_page = size_t(2) << 20;
// How long ranks sleep at most while rank 0 works alone.
constexpr int most_alone_seconds = 30;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// The path by which other processes of the host open rank 0's descriptor.
std::string path_of(int pid, int fd) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
}

}  // namespace

size_t SharedMap::head_bytes() const {
  return round_up(lines_bytes() + size_t(nranks_) * 2 * slot_bytes, huge_page);
}

// An odd number of pages apart, so that the vectors do not map to the same cache sets.
size_t SharedMap::vector_stride() const { return bytes_ ? round_up(bytes_, 8192) + 4096 : 0; }

std::atomic<uint32_t>& SharedMap::gate() const {
  return *reinterpret_cast<std::atomic<uint32_t>*>(&line(nranks_));
}

bool SharedMap::make(int* fd) const {
  // A mapping larger than free memory would end in a SIGBUS.
  const auto free_bytes = size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  if (total_bytes() > free_bytes / 2) return false;
  *fd = memfd_create("tutti-bench", MFD_CLOEXEC);
  return *fd >= 0 && ftruncate(*fd, off_t(total_bytes())) == 0;
}

bool SharedMap::map(int fd) {
  if (fd < 0) return false;
  void* at = mmap(nullptr, total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  base_ = static_cast<unsigned char*>(at);
  madvise(at, total_bytes(), MADV_HUGEPAGE);  // if the system allows it
  return true;
}

void SharedMap::touch(int rank) {
  std::memset(input(rank), rank + 1, bytes_);
  std::memset(output(rank), 0, bytes_);
}

std::unique_ptr<SharedMap> SharedMap::create(const Rank& me, size_t bytes) {
  std::unique_ptr<SharedMap> map(new SharedMap(me.nranks(), bytes));
  struct {
    int pid = getpid();
    int fd = -1;
  } source;
  if (me.first() && !map->make(&source.fd)) source.pid = 0;
  const int own_fd = source.fd;
  source = me.from_first(source);
  if (source.pid == 0) {
    if (own_fd >= 0) close(own_fd);
    return nullptr;
  }

  int fd = own_fd;
  if (!me.first()) fd = ::open(path_of(source.pid, source.fd).c_str(), O_RDWR | O_CLOEXEC);
  const bool mapped = map->map(fd);
  // On another host the path may name another file: a mark that rank 0 writes must appear.
  const uint64_t mark = me.from_first(uint64_t(getpid()) << 32 | 0x7d3b);
  if (me.first() && mapped) map->line(0).flag = mark;
  me.barrier();
  const bool same = mapped && map->line(0).flag == mark;
  const bool all = me.sum(same) == uint64_t(me.nranks());
  if (me.first() && mapped) map->line(0).flag = 0;
  if (fd >= 0) close(fd);
  if (!all) return nullptr;
  map->touch(me.rank());
  me.barrier();
  return map;
}

SharedMap::~SharedMap() {
  if (base_) munmap(base_, total_bytes());
}

void SharedMap::release() {
  gate().fetch_add(1);
  syscall(SYS_futex, &gate(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedMap::wait_released() {
  const timespec limit{most_alone_seconds, 0};
  while (gate().load() == seen_) {
    if (syscall(SYS_futex, &gate(), FUTEX_WAIT, seen_, &limit, nullptr, 0) != 0 &&
        errno == ETIMEDOUT)
      throw Failure("rank 0 did not come back from measuring alone");
  }
  ++seen_;
}

}  // namespace tutti::bench
