// Memory of vectors, with guard bytes around each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/tutti-soak/contents.h"
#include "tools/tutti-soak/random.h"

namespace tutti::soak {

// Memory that is handed out piece by piece, and taken back all at once.
class Arena {
 public:
  Arena() = default;
  Arena(void* memory, size_t bytes) : memory_(static_cast<unsigned char*>(memory)), bytes_(bytes) {}
  // Null where it does not fit. `past_line`: bytes behind a multiple of 64.
  unsigned char* take(size_t bytes, size_t past_line);
  void clear() { taken_ = 0; }
  void* memory() const { return memory_; }

 private:
  unsigned char* memory_ = nullptr;
  size_t bytes_ = 0, taken_ = 0;
};

// A part of a vector.
struct Part {
  size_t at, bytes;
  Content content;
};

struct Difference {
  size_t bytes = 0;  // number of wrong bytes
  size_t first = 0, last = 0;
  int got = 0, expected = 0;  // at the first wrong byte
};

// A vector of some bytes.
class Vector {
 public:
  static constexpr size_t margin = 128;
  static constexpr size_t room(size_t bytes) { return bytes + 2 * margin; }

  Vector() = default;
  // `memory`: room(bytes) bytes; the vector begins after the margin. `untouched`: the content where
  // no other is put.
  Vector(unsigned char* memory, size_t bytes, Content untouched)
      : memory_(memory), bytes_(bytes), untouched_(untouched) {}
  void* data() const { return memory_ + margin; }
  size_t bytes() const { return bytes_; }

  void write(const std::vector<Part>& parts) const;
  // Compares all of it with the input overlaid with the expected output. `any`: parts that may hold
  // anything. Offsets of differences are from the begin of the vector; below zero they wrap.
  Difference compare(const std::vector<Part>& in, const std::vector<Part>& out,
                     const std::vector<Part>& any) const;

 private:
  void write_to(unsigned char* memory, const std::vector<Part>& parts) const;
  unsigned char* memory_ = nullptr;
  size_t bytes_ = 0;
  Content untouched_{};
};

}  // namespace tutti::soak
