#include "lib/base/cache.h"

#include <cstdio>
#include <memory>
#include <string>

namespace tutti {

namespace {

constexpr size_t usual_bytes = 32 << 20, usual_core_bytes = 256 << 10;

// "32768K"; 0: there is no such file. (sysconf() may count a whole socket's caches as one.)
size_t read_size(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  size_t number = 0;
  char unit = 0;
  if (file == nullptr || std::fscanf(file.get(), "%zu%c", &number, &unit) < 1) return 0;
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

std::string read_word(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  char word[32] = "";
  if (file != nullptr && std::fscanf(file.get(), "%31s", word) < 1) word[0] = '\0';
  return word;
}

std::string cache_file(int core, int index, const char* name) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index" +
         std::to_string(index) + "/" + name;
}

// "0-3,8": adds them; false if there is no such file.
bool read_cores(const std::string& path, cpu_set_t* out) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) return false;
  CPU_ZERO(out);
  for (int first = 0, last = 0; std::fscanf(file.get(), "%d", &first) == 1;) {
    last = first;
    int separator = std::fgetc(file.get());
    if (separator == '-' && std::fscanf(file.get(), "%d", &last) == 1) {
      separator = std::fgetc(file.get());
    }
    for (int core = first; core <= last && core < CPU_SETSIZE; ++core) CPU_SET(core, out);
    if (separator != ',') break;
  }
  return true;
}

constexpr int most_caches = 8;  // index0 and up, of a core

}  // namespace

size_t last_level_cache_bytes() {
  static const size_t bytes = [] {
    size_t last = 0;
    for (int index = 0; index < most_caches; ++index) {
      const size_t found = read_size(cache_file(0, index, "size"));
      if (found != 0) last = found;
    }
    return last != 0 ? last : usual_bytes;
  }();
  return bytes;
}

std::vector<size_t> data_cache_sizes() {
  std::vector<size_t> sizes;
  for (int index = 0; index < most_caches; ++index) {
    const size_t found = read_size(cache_file(0, index, "size"));
    if (found != 0 && read_word(cache_file(0, index, "type")) != "Instruction") {
      sizes.push_back(found);
    }
  }
  return sizes;
}

size_t core_cache_bytes() {
  static const size_t bytes = [] {
    const std::vector<size_t> sizes = data_cache_sizes();
    return sizes.size() > 1 ? sizes[sizes.size() - 2] : usual_core_bytes;
  }();
  return bytes;
}

int last_level_cache_of(const cpu_set_t& cores) {
  int core = 0;
  while (core < CPU_SETSIZE && !CPU_ISSET(core, &cores)) ++core;
  cpu_set_t shared, last;
  bool known = false;
  for (int index = 0; index < most_caches; ++index) {
    if (!read_cores(cache_file(core, index, "shared_cpu_list"), &shared)) continue;
    last = shared;
    known = true;
  }
  cpu_set_t both;
  if (known) CPU_AND(&both, &last, &cores);
  if (!known || !CPU_EQUAL(&both, &cores)) return -1;
  int first = 0;
  while (!CPU_ISSET(first, &last)) ++first;
  return first;
}

}  // namespace tutti
