// What a target that makes choices takes them from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::fuzz {

// The bytes of the input, one after the other; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}
  bool empty() const { return bytes_ == 0; }
  uint8_t byte() {
    if (bytes_ == 0) return 0;
    --bytes_;
    return *data_++;
  }
  uint8_t below(int limit) { return uint8_t(byte() % limit); }
  // At most 255 bytes.
  std::string text() {
    std::string text(byte(), '\0');
    for (char& one : text) one = char(byte());
    return text;
  }

 private:
  const uint8_t* data_;
  size_t bytes_;
};

}  // namespace tutti::fuzz
