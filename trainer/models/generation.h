// Text that a model writes, byte by byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/common/random.h"

namespace tutti::train {

// `next(recent, random)`: the byte that follows the most recent ones, at most `context` of them;
// drawn with `random`.
template <class Next>
std::string generate_text(const std::string& prompt, int64_t bytes, int64_t context, uint64_t seed,
                          Next&& next) {
  std::vector<int64_t> tokens;
  for (const char c : prompt) tokens.push_back(uint8_t(c));
  for (int64_t i = 0; i < bytes; ++i) {
    const int64_t length = std::min<int64_t>(int64_t(tokens.size()), context);
    tokens.push_back(
        next(std::vector<int64_t>(tokens.end() - length, tokens.end()), mixed(seed, uint64_t(i))));
  }
  std::string text;
  for (const int64_t token : tokens) text += char(token);
  return text;
}

}  // namespace tutti::train
