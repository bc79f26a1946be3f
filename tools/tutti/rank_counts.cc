#include "tools/tutti/rank_counts.h"

#include <fmt/core.h>

#include <charconv>
#include <set>
#include <sstream>

#include "tools/tutti/commands.h"

namespace tutti {

namespace {

bool read(const std::string& text, uint32_t least, uint32_t most, uint32_t* out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && at == end && *out >= least && *out <= most;
}

}  // namespace

uint32_t parse_number(const std::string& name, const std::string& text, uint32_t least,
                      uint32_t most) {
  uint32_t number = 0;
  if (!read(text, least, most, &number)) {
    refuse(fmt::format("{} is {}, allowed: a number from {} to {}", name, text, least, most));
  }
  return number;
}

std::vector<uint32_t> parse_rank_counts(const std::string& text, uint32_t most) {
  std::set<uint32_t> counts;
  std::stringstream parts(text);
  bool good = !text.empty() && text.back() != ',';
  for (std::string part; good && std::getline(parts, part, ',');) {
    const size_t colon = part.find(':');
    uint32_t first = 0, last = 0;
    good = read(part.substr(0, colon), 1, most, &first);
    last = first;
    if (good && colon != std::string::npos) good = read(part.substr(colon + 1), first, most, &last);
    for (uint32_t p = first; good && p <= last; ++p) counts.insert(p);
  }
  if (!good) {
    refuse(
        fmt::format("-n is {}, allowed: a number of ranks from 1 to {}, a list (2,3,8) or a range "
                    "(2:64)",
                    text, most));
  }
  return {counts.begin(), counts.end()};
}

}  // namespace tutti
