#include "bench/sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <limits>

#include "bench/error.h"

namespace tutti::bench {
namespace {

// What one buffer may hold; also keeps every sum of sizes far from overflow.
constexpr size_t largest = size_t(1) << 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& text) {
  throw BadInput(
      fmt::format("size '{}': allowed are bytes with an optional K, M or G (1 to 1024G), "
                  "ranges like 4:64M and comma lists of them",
                  text));
}

}  // namespace

size_t parse_bytes(const std::string& text) {
  size_t digits = 0;
  uint64_t value = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) {
    value = value * 10 + uint64_t(text[digits++] - '0');
    if (value > largest) refuse(text);
  }
  if (digits == 0 || text.size() > digits + 1) refuse(text);
  int shift = 0;
  if (text.size() == digits + 1) {
    switch (std::toupper(static_cast<unsigned char>(text[digits]))) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        refuse(text);
    }
  }
  if (value == 0 || value > (largest >> shift)) refuse(text);
  return value << shift;
}

std::vector<size_t> parse_sizes(const std::string& text, size_t element, size_t factor) {
  std::vector<size_t> sizes;
  for (const std::string& part : split(text, ',')) {
    auto ends = split(part, ':');
    if (ends.size() > 2) refuse(part);
    size_t begin = parse_bytes(ends.front()), end = parse_bytes(ends.back());
    if (begin > end)
      throw BadInput(fmt::format("size range '{}': the begin must not exceed the end", part));
    for (size_t size = begin; size < end; size *= factor) sizes.push_back(size);
    sizes.push_back(end);
  }
  for (size_t size : sizes)
    if (size % element)
      throw BadInput(fmt::format("size {}: must be a multiple of {}, the bytes of one element",
                                 size, element));
  return sizes;
}

std::string format_bytes(size_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  double value = double(bytes);
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  const int decimals = value == double(size_t(value)) ? 0 : 1;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string format_thousands(unsigned long long value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace tutti::bench
