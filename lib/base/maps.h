// What /proc says of this process's memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

// Pages that are mapped alike: a line of /proc/self/maps.
struct MapsEntry {
  uintptr_t begin = 0, end = 0;
  char mode[5] = {};    // "rw-p": private, "rw-s": shared
  uint64_t offset = 0;  // of `begin` in the file
  dev_t device = 0;
  ino_t inode = 0;  // 0: of no file
  std::string name;
  std::vector<std::string> flags;  // "VmFlags" of /proc/self/smaps, two letters each

  bool can_read_and_write() const { return mode[0] == 'r' && mode[1] == 'w'; }
  bool is_shared() const { return mode[3] == 's'; }
};

// The entries that overlap [begin, end), in their order. `with_flags` costs more: the kernel then
// counts the pages of everything below `end`.
Status read_maps(uintptr_t begin, uintptr_t end, bool with_flags, std::vector<MapsEntry>* out);

}  // namespace tutti
