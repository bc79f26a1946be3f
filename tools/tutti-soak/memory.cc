#include "tools/tutti-soak/memory.h"

#include <cstring>

namespace tutti::soak {

unsigned char* Arena::take(size_t bytes, size_t past_line) {
  const size_t at = (taken_ + 63) / 64 * 64 + past_line;
  if (memory_ == nullptr || at + bytes > bytes_) return nullptr;
  taken_ = at + bytes;
  return memory_ + at;
}

void Vector::write_to(unsigned char* memory, const std::vector<Part>& parts) const {
  for (const Part& part : parts) part.content.write(memory + margin + part.at, part.bytes);
}

void Vector::write(const std::vector<Part>& parts) const {
  untouched_.write(memory_, room(bytes_));
  write_to(memory_, parts);
}

Difference Vector::compare(const std::vector<Part>& in, const std::vector<Part>& out,
                           const std::vector<Part>& any) const {
  static thread_local std::vector<unsigned char> expected;
  if (expected.size() < room(bytes_)) expected.resize(room(bytes_));
  untouched_.write(expected.data(), room(bytes_));
  write_to(expected.data(), in);
  write_to(expected.data(), out);
  for (const Part& part : any)
    std::memcpy(&expected[margin + part.at], memory_ + margin + part.at, part.bytes);
  Difference found;
  if (std::memcmp(expected.data(), memory_, room(bytes_)) == 0) return found;
  for (size_t i = 0; i < room(bytes_); ++i) {
    if (expected[i] == memory_[i]) continue;
    if (found.bytes++ == 0) {
      found.first = i - margin;
      found.got = memory_[i];
      found.expected = expected[i];
    }
    found.last = i - margin;
  }
  return found;
}

}  // namespace tutti::soak
