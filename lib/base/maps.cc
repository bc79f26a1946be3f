#include "lib/base/maps.h"

#include <sys/sysmacros.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace tutti {

namespace {

bool parse(const std::string& line, MapsEntry* out) {
  unsigned major = 0, minor = 0;
  uint64_t inode = 0;
  int name = 0;
  if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                  &out->begin, &out->end, out->mode, &out->offset, &major, &minor, &inode,
                  &name) != 7) {
    return false;
  }
  out->device = makedev(major, minor);
  out->inode = inode;
  out->name = line.substr(size_t(name));
  return true;
}

}  // namespace

Status read_maps(uintptr_t begin, uintptr_t end, bool with_flags, std::vector<MapsEntry>* out) {
  static constexpr const char* flags_are = "VmFlags:";
  const char* const path = with_flags ? "/proc/self/smaps" : "/proc/self/maps";
  errno = 0;
  std::ifstream maps(path);
  if (!maps) return system_error(std::string("cannot read ") + path, errno);
  out->clear();
  bool wanted = false;
  for (std::string line; std::getline(maps, line);) {
    MapsEntry entry;
    if (parse(line, &entry)) {
      if (entry.begin >= end) break;
      wanted = entry.end > begin;
      if (wanted) out->push_back(std::move(entry));
    } else if (wanted && line.starts_with(flags_are)) {
      std::istringstream words(line.substr(std::string(flags_are).size()));
      for (std::string flag; words >> flag;) out->back().flags.push_back(flag);
    }
  }
  return {};
}

}  // namespace tutti
