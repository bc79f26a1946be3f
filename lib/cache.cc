#include "lib/cache.h"

#include <cstdio>
#include <memory>
#include <string>

namespace tutti {

namespace {

constexpr size_t usual_bytes = 32 << 20;

// "32768K"; 0: there is no such file. (sysconf() may count a whole socket's caches as one.)
size_t read_size(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  size_t number = 0;
  char unit = 0;
  if (file == nullptr || std::fscanf(file.get(), "%zu%c", &number, &unit) < 1) return 0;
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

}  // namespace

size_t last_level_cache_bytes() {
  static const size_t bytes = [] {
    size_t last = 0;
    for (int index = 0; index < 8; ++index) {
      const size_t found =
          read_size("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
      if (found != 0) last = found;
    }
    return last != 0 ? last : usual_bytes;
  }();
  return bytes;
}

}  // namespace tutti
