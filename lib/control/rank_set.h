// A set of ranks, as a row of bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

class RankSet {
 public:
  RankSet() = default;
  // Of ranks below `nranks`; empty.
  explicit RankSet(int nranks) : words_((size_t(nranks) + 63) / 64) {}
  static RankSet all(int nranks) {
    RankSet set(nranks);
    for (int rank = 0; rank < nranks; ++rank) set.add(rank);
    return set;
  }

  static RankSet of(int rank, int nranks) {
    RankSet set(nranks);
    set.add(rank);
    return set;
  }

  bool has(int rank) const { return (words_[size_t(rank) / 64] >> (rank % 64) & 1) != 0; }
  void add(int rank) { words_[size_t(rank) / 64] |= uint64_t{1} << (unsigned(rank) % 64); }
  void remove(int rank) { words_[size_t(rank) / 64] &= ~(uint64_t{1} << (unsigned(rank) % 64)); }
  size_t count() const {
    size_t ranks = 0;
    for (const uint64_t word : words_) ranks += size_t(std::popcount(word));
    return ranks;
  }
  bool empty() const { return count() == 0; }
  // The lowest; -1: none.
  int first() const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) return int(64 * i) + std::countr_zero(words_[i]);
    }
    return -1;
  }
  std::vector<int> ranks() const {
    std::vector<int> list;
    for (int rank = 0; rank < int(64 * words_.size()); ++rank) {
      if (has(rank)) list.push_back(rank);
    }
    return list;
  }
  bool covers(const RankSet& other) const { return (other - *this).empty(); }

  // Of sets over the same number of ranks.
  RankSet& operator|=(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  RankSet& operator&=(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  RankSet& operator-=(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend RankSet operator&(RankSet a, const RankSet& b) { return a &= b; }
  friend RankSet operator-(RankSet a, const RankSet& b) { return a -= b; }
  bool operator==(const RankSet&) const = default;

  // As words, for messages.
  const std::vector<uint64_t>& words() const { return words_; }
  std::vector<uint64_t>& words() { return words_; }

  // "rank 3", "ranks 0, 2".
  std::string describe() const {
    constexpr size_t shown = 12;
    const std::vector<int> list = ranks();
    std::string text = list.size() == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < std::min(list.size(), shown); ++i)
      text += (i == 0 ? " " : ", ") + std::to_string(list[i]);
    return list.size() > shown ? text + " ... (" + std::to_string(list.size()) + ")" : text;
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace tutti
