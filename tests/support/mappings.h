// What lies where in this process.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace tutti::testing {

// The mode of the mapping around an address: "rw-p"; "" where nothing is mapped.
inline std::string mode_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char mode[5] = {};
    if (sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) == 3 && begin <= at && at < end) {
      return mode;
    }
  }
  return {};
}

}  // namespace tutti::testing
