#include "trainer/data/vocabulary.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <queue>
#include <set>
#include <sstream>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/data/data.h"

namespace tutti::train {
namespace {

// ---------------------------------------------------------------- words

enum class Kind { space, letter, digit, other };

// Bytes beyond ASCII count as letters.
Kind kind_of(char c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) return Kind::space;
  if (c >= '0' && c <= '9') return Kind::digit;
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || uint8_t(c) >= 128;
  return letter ? Kind::letter : Kind::other;
}

// The end of the word that begins at `at`, by GPT-2's rule: letters, digits or other characters,
// with a space before them; an English ending; spaces but for that one.
size_t word_end(std::string_view text, size_t at) {
  const auto run = [&](size_t from) {
    size_t end = from;
    while (end < text.size() && kind_of(text[end]) == kind_of(text[from])) ++end;
    return end;
  };
  if (text[at] == '\'')
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (text.substr(at).starts_with(ending)) return at + ending.size();
  if (kind_of(text[at]) != Kind::space) return run(at);
  const size_t end = run(at);
  if (end == text.size()) return end;
  if (end - at > 1) return end - 1;  // the last space is the next word's, or a word
  return text[at] == ' ' ? run(end) : end;
}

template <class Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = word_end(text, at);
    visit(text.substr(at, end - at));
  }
}

std::vector<uint16_t> bytes_of(std::string_view word) {
  std::vector<uint16_t> tokens;
  for (const char c : word) tokens.push_back(uint8_t(c));
  return tokens;
}

uint32_t pair_at(const std::vector<uint16_t>& tokens, size_t i) {
  return uint32_t(tokens[i]) << 16 | tokens[i + 1];
}

// Puts `token` in place of the pair, from left to right.
void replace_pairs(std::vector<uint16_t>& tokens, uint32_t pair, uint16_t token) {
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++kept) {
    const bool found = i + 1 < tokens.size() && pair_at(tokens, i) == pair;
    tokens[kept] = found ? token : tokens[i];
    i += found ? 2 : 1;
  }
  tokens.resize(kept);
}

// ---------------------------------------------------------------- how often pairs come

class PairCounts {
 public:
  explicit PairCounts(std::string_view text) {
    std::unordered_map<std::string_view, int64_t> found;
    for_each_word(text, [&](std::string_view word) { ++found[word]; });
    for (const auto& [word, count] : found) {
      words_.push_back({bytes_of(word), count});
      add(words_.size() - 1, 1);
    }
    for (const auto& [pair, count] : counts_) offer(pair);
  }
  // Takes out the most frequent pair, of equal ones the least; false if none comes twice.
  bool next(uint32_t& pair) {
    while (!best_.empty()) {
      const int64_t told = best_.top().first;
      pair = ~best_.top().second;
      best_.pop();
      const int64_t now = counts_[pair];
      if (now == told) return true;
      offer(pair);  // it has become rarer
    }
    return false;
  }
  void replace(uint32_t pair, uint16_t token) {
    std::set<uint32_t> changed;
    for (const size_t word : std::exchange(words_with_[pair], {})) {
      add(word, -1);
      replace_pairs(words_[word].tokens, pair, token);
      add(word, 1, &changed);
    }
    counts_.erase(pair);
    for (const uint32_t other : changed) offer(other);
  }
  void forbid(uint32_t pair) { counts_.erase(pair); }

 private:
  struct Word {
    std::vector<uint16_t> tokens;
    int64_t count;
  };
  void offer(uint32_t pair) {
    if (const int64_t count = counts_[pair]; count > 1) best_.emplace(count, ~pair);
  }
  void add(size_t word, int64_t times, std::set<uint32_t>* changed = nullptr) {
    const Word& w = words_[word];
    for (size_t i = 0; i + 1 < w.tokens.size(); ++i) {
      const uint32_t pair = pair_at(w.tokens, i);
      counts_[pair] += times * w.count;
      if (times > 0) words_with_[pair].insert(word);
      if (changed) changed->insert(pair);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<uint32_t, int64_t> counts_;
  std::unordered_map<uint32_t, std::set<size_t>> words_with_;
  std::priority_queue<std::pair<int64_t, uint32_t>>
      best_;  // a pair's bits inverted; may be outdated
};

// ---------------------------------------------------------------- the file's format

// Bytes as characters that are printed: themselves, or from U+0100 on.
const std::array<std::string, 256>& byte_names() {
  static const std::array<std::string, 256> names = [] {
    std::array<std::string, 256> made;
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printed = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const unsigned code = printed ? byte : next++;
      if (code < 128)
        made[byte] = char(code);
      else
        made[byte] = {char(0xc0 | code >> 6), char(0x80 | (code & 63))};
    }
    return made;
  }();
  return names;
}

std::string name_of(std::string_view bytes) {
  std::string name;
  for (const char c : bytes) name += byte_names()[uint8_t(c)];
  return name;
}

// What --tokens says, unless it names a file.
std::optional<size_t> number_in(const std::string& option) {
  size_t count = 0;
  const char* const end = option.data() + option.size();
  const auto read = std::from_chars(option.data(), end, count);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (count <= Vocabulary::bytes || count > Vocabulary::most)
    throw BadInput(fmt::format("--tokens {}: must be from {} to {}, or a file", option,
                               Vocabulary::bytes + 1, Vocabulary::most));
  return count;
}

}  // namespace

Vocabulary::Vocabulary() {
  for (size_t byte = 0; byte < bytes; ++byte) strings_.emplace_back(1, char(byte));
}

std::string Vocabulary::spelt(uint32_t pair) const {
  return strings_[pair >> 16] + strings_[pair & 0xffff];
}

uint16_t Vocabulary::join(uint32_t pair) {
  const auto token = uint16_t(size());
  strings_.push_back(spelt(pair));
  joins_.push_back(pair);
  by_pair_.emplace(pair, token);
  return token;
}

Vocabulary Vocabulary::learnt(std::string_view text, size_t size) {
  Vocabulary made;
  PairCounts counts(text);
  std::set<std::string> strings;
  for (uint32_t pair = 0; made.size() < size && counts.next(pair);) {
    // What two pairs of tokens spell is one token.
    if (strings.insert(made.spelt(pair)).second)
      counts.replace(pair, made.join(pair));
    else
      counts.forbid(pair);
  }
  return made;
}

Vocabulary Vocabulary::parsed(const std::string& text, const std::string& path) {
  Vocabulary made;
  std::unordered_map<std::string, uint16_t> tokens;
  for (size_t byte = 0; byte < bytes; ++byte) tokens.emplace(byte_names()[byte], uint16_t(byte));
  std::istringstream lines(text);
  size_t number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    if (number == 1 && line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    const auto left = tokens.find(line.substr(0, space)),
               right = tokens.find(space == std::string::npos ? "" : line.substr(space + 1));
    if (left == tokens.end() || right == tokens.end() || made.size() == most ||
        !tokens.emplace(left->first + right->first, uint16_t(made.size())).second)
      throw BadInput(
          fmt::format("--tokens {}: line {} is no new join of two tokens of before", path, number));
    made.join(uint32_t(left->second) << 16 | right->second);
  }
  return made;
}

std::string Vocabulary::text() const {
  std::string text = "#version: 0.2\n";
  for (const uint32_t pair : joins_)
    text += name_of(strings_[pair >> 16]) + " " + name_of(strings_[pair & 0xffff]) + "\n";
  return text;
}

std::vector<uint16_t> Vocabulary::encoded(std::string_view text) const {
  if (joins_.empty()) return bytes_of(text);
  std::unordered_map<std::string_view, std::vector<uint16_t>> known;
  std::vector<uint16_t> all;
  for_each_word(text, [&](std::string_view word) {
    const auto [found, first] = known.try_emplace(word);
    std::vector<uint16_t>& tokens = found->second;
    if (first) tokens = bytes_of(word);
    while (first && tokens.size() > 1) {
      // The earliest join of all that can be made.
      const std::pair<const uint32_t, uint16_t>* best = nullptr;
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto next = by_pair_.find(pair_at(tokens, i));
        if (next != by_pair_.end() && (!best || next->second < best->second)) best = &*next;
      }
      if (!best) break;
      replace_pairs(tokens, best->first, best->second);
    }
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

std::string Vocabulary::decoded(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) text += strings_.at(size_t(token));
  return text;
}

size_t tokens_of(const std::string& option) {
  if (option.empty()) return Vocabulary::bytes;
  const std::optional<size_t> number = number_in(option);
  return number ? *number : vocabulary_of(option, "").size();
}

Vocabulary vocabulary_of(const std::string& option, std::string_view text) {
  if (option.empty()) return {};
  const std::optional<size_t> number = number_in(option);
  if (!number) return Vocabulary::parsed(data_in(option, "--tokens"), option);
  Vocabulary made = Vocabulary::learnt(text, *number);
  if (made.size() < *number)
    throw BadInput(fmt::format("--tokens {}: in this text no pair comes twice any more after {}",
                               option, made.size()));
  return made;
}

}  // namespace tutti::train
