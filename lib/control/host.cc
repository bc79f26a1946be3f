#include "lib/control/host.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "lib/base/cache.h"
#include "lib/base/fd.h"

namespace tutti {

namespace {

Status read_boot_id(uint8_t (&out)[16]) {
  const Fd file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  if (!file || read(file.get(), text, sizeof(text) - 1) < 36) {
    return system_error("cannot read /proc/sys/kernel/random/boot_id", errno);
  }
  int digit = 0;
  for (const char* c = text; *c != '\0' && digit < 32; ++c) {
    const int value = *c >= '0' && *c <= '9'   ? *c - '0'
                      : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                                               : -1;
    if (value < 0) continue;
    out[digit / 2] = uint8_t(out[digit / 2] << 4 | value);
    ++digit;
  }
  return {};
}

Status namespace_number(const char* path, uint64_t* out) {
  struct stat found {};
  if (stat(path, &found) != 0) return system_error(std::string("cannot read ") + path, errno);
  *out = found.st_ino;
  return {};
}

// The user as whoever made the user namespace knows him: 0 in one may be anybody outside. Lines of
// uid_map: first number inside, first outside, how many.
uint32_t user_outside() {
  const uint32_t inside = geteuid();
  std::ifstream map("/proc/self/uid_map");
  for (uint64_t first, outside, count; map >> first >> outside >> count;) {
    if (inside >= first && inside - first < count) return uint32_t(outside + inside - first);
  }
  return inside;
}

uint64_t own_cookie() {
  static const uint64_t cookie = [] {
    uint64_t value = 0;
    if (getrandom(&value, sizeof(value), 0) != ssize_t(sizeof(value))) value = uint64_t(getpid());
    return value;
  }();
  return cookie;
}

}  // namespace

Status HostRecord::own(HostRecord* out) {
  TUTTI_TRY(read_boot_id(out->boot_id));
  TUTTI_TRY(namespace_number("/proc/self/ns/pid", &out->process_namespace));
  TUTTI_TRY(namespace_number("/proc/self/ns/net", &out->network_namespace));
  out->process_cookie = own_cookie();
  out->pid = getpid();
  out->uid = user_outside();
  CPU_ZERO(&out->cores);
  sched_getaffinity(0, sizeof(out->cores), &out->cores);
  out->cache = last_level_cache_of(out->cores);
  return {};
}

bool HostRecord::sees(const HostRecord& other) const {
  return std::memcmp(boot_id, other.boot_id, sizeof(boot_id)) == 0 &&
         process_namespace == other.process_namespace;
}

bool HostRecord::same_host(const HostRecord& other) const {
  return sees(other) && network_namespace == other.network_namespace && uid == other.uid;
}

uint32_t cache_group(std::span<const HostRecord> records) {
  const auto nranks = uint32_t(records.size());
  uint32_t size = 1;
  while (size < nranks && records[size].cache == records[0].cache) ++size;
  for (uint32_t rank = 0; rank < nranks; ++rank) {
    // Each rank shares the cache of its group's first rank, and no group that of the group before.
    const HostRecord& first = records[rank / size * size];
    const bool alone = rank < size || first.cache != records[rank / size * size - 1].cache;
    if (records[rank].cache < 0 || records[rank].cache != first.cache || !alone) return nranks;
  }
  return size;
}

double ranks_per_core(std::span<const HostRecord> records, size_t self) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int ranks = 0;
  for (const HostRecord& record : records) {
    // Processes in other namespaces share the cores too.
    if (std::memcmp(record.boot_id, records[self].boot_id, sizeof(record.boot_id)) != 0) continue;
    ++ranks;
    CPU_OR(&cores, &cores, &record.cores);
  }
  const int known = CPU_COUNT(&cores);
  return known == 0 ? 1 : double(ranks) / known;
}

}  // namespace tutti
