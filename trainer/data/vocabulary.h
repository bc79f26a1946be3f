// Text as tokens: bytes, and joins of two tokens that often follow each other (byte pair encoding;
// Sennrich et al. 2016, of bytes as in GPT-2). No token reaches from one word into the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::train {

class Vocabulary {
 public:
  static constexpr size_t bytes = 256, most = 65536;  // tokens: the first ones are the bytes

  Vocabulary();  // the bytes alone
  // Joins the most frequent pair of tokens in the text, and again, until there are `size` tokens or
  // no pair comes twice.
  static Vocabulary learnt(std::string_view text, size_t size);
  // What text() returned: GPT-2's format, a join a line. `path` is for BadInput's sentence.
  static Vocabulary parsed(const std::string& text, const std::string& path);
  std::string text() const;

  size_t size() const { return strings_.size(); }
  std::vector<uint16_t> encoded(std::string_view text) const;
  std::string decoded(std::span<const int64_t> tokens) const;

 private:
  std::string spelt(uint32_t pair) const;
  uint16_t join(uint32_t pair);  // the new token

  std::vector<std::string> strings_;  // of the tokens
  std::vector<uint32_t> joins_;       // token 256 + i is this pair
  std::unordered_map<uint32_t, uint16_t> by_pair_;
};

// Of a run with --tokens: the number of tokens that it asks for. Throws BadInput.
size_t tokens_of(const std::string& option);
// The vocabulary itself, learnt from the text or from the file that the option names.
Vocabulary vocabulary_of(const std::string& option, std::string_view text);

}  // namespace tutti::train
