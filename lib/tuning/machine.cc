#include "lib/tuning/machine.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>

#include "lib/base/cache.h"

namespace tutti {

namespace {

// Of the first processor that the system lists: what it says of its kind, joined by commas. The
// names of x86, then those of ARM.
std::string processor() {
  constexpr const char* keys[] = {"model name",      "cpu family",  "model",
                                  "CPU implementer", "CPU variant", "CPU part"};
  std::ifstream file("/proc/cpuinfo");
  std::string all;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const size_t begin = line.find_first_not_of(' ', colon + 1);
    for (const char* const key : keys) {
      if (name != key || begin == line.npos) continue;
      all += (all.empty() ? "" : ", ") + (name == keys[0] ? "" : name + " ") + line.substr(begin);
    }
  }
  return all.empty() ? "unknown processor" : all;
}

std::string size_text(size_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB"
                                : std::to_string(bytes >> 10) + " KiB";
}

MachineKind look() {
  MachineKind kind;
  const long cores = sysconf(_SC_NPROCESSORS_CONF);
  kind.about = processor() + "; " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
  bool first = true;
  for (const size_t bytes : data_cache_sizes()) {
    kind.about += (first ? "; caches " : ", ") + size_text(bytes);
    first = false;
  }
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : kind.about) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  kind.id = std::string(text).substr(0, 12);
  return kind;
}

}  // namespace

const MachineKind& this_machine() {
  static const MachineKind kind = look();
  return kind;
}

}  // namespace tutti
