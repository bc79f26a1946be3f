// Text that a model writes, token by token.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/common/random.h"
#include "trainer/data/vocabulary.h"

namespace tutti::train {

// The prompt and `bytes` more. `next(recent, random)`: the token that follows the most recent ones,
// at most `context` of them; drawn with `random`.
template <class Next>
std::string generate_text(const Vocabulary& vocabulary, const std::string& prompt, int64_t bytes,
                          int64_t context, uint64_t seed, Next&& next) {
  const std::vector<uint16_t> first = vocabulary.encoded(prompt);
  std::vector<int64_t> tokens(first.begin(), first.end());
  std::string text = prompt;
  const size_t whole = prompt.size() + size_t(bytes);
  for (uint64_t i = 0; text.size() < whole; ++i) {
    const int64_t length = std::min<int64_t>(int64_t(tokens.size()), context);
    tokens.push_back(
        next(std::vector<int64_t>(tokens.end() - length, tokens.end()), mixed(seed, i)));
    text += vocabulary.decoded(std::array{tokens.back()});
  }
  text.resize(whole);
  return text;
}

}  // namespace tutti::train
