#include "lib/shared_memory/adoptable.h"

#include <dirent.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/base/maps.h"

namespace tutti::shared {

namespace {

Status refuse(tutti_status code, const std::string& why) {
  return {code, "the memory cannot be adopted: " + why};
}

bool has(const MapsEntry& entry, const char* flag) {
  return std::find(entry.flags.begin(), entry.flags.end(), flag) != entry.flags.end();
}

// Flags of ordinary memory; the last three are advice. Any other one says that somebody relies on
// what a shared mapping would not keep: secrets left out of core dumps, pages that are empty in
// children, keys, seals, pages given to devices, faults that another thread serves.
bool is_ordinary(const std::string& flag) {
  static constexpr const char* ordinary[] = {"rd", "wr", "mr", "mw", "me",
                                             "ac", "sd", "nr", "hg", "nh"};
  return std::any_of(std::begin(ordinary), std::end(ordinary),
                     [&](const char* one) { return flag == one; });
}

Status check_entry(const MapsEntry& entry) {
  if (has(entry, "gd") || entry.name == "[stack]") {
    return refuse(TUTTI_UNSUPPORTED, "it is part of a stack");
  }
  if (has(entry, "ht")) {
    return refuse(TUTTI_UNSUPPORTED, "it is in huge pages that the program has reserved");
  }
  if (entry.is_shared()) {
    // Pages of ours have this name, whichever communicator has adopted them.
    if (entry.name.starts_with("/memfd:tutti-adopted")) {
      return refuse(TUTTI_INVALID, "it is adopted already");
    }
    return refuse(TUTTI_UNSUPPORTED, "it is shared with other processes already");
  }
  if (entry.inode != 0) return refuse(TUTTI_UNSUPPORTED, "it is of the file " + entry.name);
  if (!entry.can_read_and_write()) {
    return refuse(TUTTI_INVALID, "it cannot be read and written");
  }
  if (has(entry, "lo") || has(entry, "lf")) {
    return refuse(TUTTI_UNSUPPORTED, "it is locked (mlock)");
  }
  if (has(entry, "dc") || has(entry, "wf")) {
    return refuse(TUTTI_UNSUPPORTED,
                  "children do not get a copy of it (MADV_DONTFORK, MADV_WIPEONFORK)");
  }
  if (entry.flags.empty()) {
    return refuse(TUTTI_UNSUPPORTED, "this system does not say what kind of memory it is");
  }
  for (const std::string& flag : entry.flags) {
    if (is_ordinary(flag)) continue;
    return refuse(TUTTI_UNSUPPORTED,
                  "it is a special mapping (flag " + flag + " in /proc/self/smaps)");
  }
  return {};
}

// Of a thread, an address in its control block, which the C libraries keep at the top of its stack:
// the head of its list of robust mutexes, which it has told the kernel. 0: it has told none.
Status find_control_block(pid_t thread, uintptr_t* out) {
  robust_list_head* head = nullptr;
  size_t bytes = 0;
  *out = 0;
  if (syscall(SYS_get_robust_list, thread, &head, &bytes) != 0 && errno != ESRCH) {
    return refuse(TUTTI_UNSUPPORTED, "this system does not say where stacks of threads are");
  }
  *out = reinterpret_cast<uintptr_t>(head);
  return {};
}

// No flag and no name tells a thread's stack from other memory.
Status check_stacks(uintptr_t begin, uintptr_t end) {
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (begin <= here && here < end) return refuse(TUTTI_UNSUPPORTED, "it is part of a stack");
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir("/proc/self/task"), closedir);
  if (threads == nullptr) return system_error("cannot read /proc/self/task", errno);
  while (const dirent* const found = readdir(threads.get())) {
    const auto thread = pid_t(std::strtol(found->d_name, nullptr, 10));
    if (thread == 0) continue;  // "." and ".."
    uintptr_t block = 0;
    TUTTI_TRY(find_control_block(thread, &block));
    if (block == 0) continue;
    const uintptr_t top = (block / page + 1) * page;
    uintptr_t low = top - page;
    if (thread != getpid()) {  // the stack of the first thread has a name
      std::vector<MapsEntry> around;
      TUTTI_TRY(read_maps(block, block + 1, false, &around));
      // Down to the guard page.
      if (!around.empty()) low = around.front().begin;
    }
    if (begin < top && low < end) {
      return refuse(TUTTI_UNSUPPORTED, "it is part of a thread's stack");
    }
  }
  return {};
}

}  // namespace

Status check_adoptable(uintptr_t begin, uintptr_t end, HugePages* huge) {
  std::vector<MapsEntry> entries;
  TUTTI_TRY(read_maps(begin, end, true, &entries));
  uintptr_t at = begin;
  bool wanted = true, unwanted = true;
  for (const MapsEntry& entry : entries) {
    if (entry.begin > at) break;
    TUTTI_TRY(check_entry(entry));
    wanted = wanted && has(entry, "hg");
    unwanted = unwanted && has(entry, "nh");
    at = entry.end;
  }
  if (at < end) return refuse(TUTTI_INVALID, "not all of it is mapped");
  *huge = wanted ? HugePages::wanted : unwanted ? HugePages::unwanted : HugePages::as_usual;
  return check_stacks(begin, end);
}

}  // namespace tutti::shared
