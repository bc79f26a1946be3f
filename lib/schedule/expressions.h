// Symbolic values: ordered contributions with their bracketing, each distinct one stored once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::schedule {

class Expressions {
 public:
  using Id = uint32_t;
  static constexpr Id none = 0;

  explicit Expressions(uint32_t nranks) {
    nodes_.resize(size_t(nranks) + 1);
    for (uint32_t rank = 0; rank < nranks; ++rank) {
      nodes_[leaf(rank)].size = 1;
      nodes_[leaf(rank)].hash = mix(rank + 1, 0x243f6a8885a308d3u);
    }
  }

  // What rank `rank` contributed.
  static Id leaf(uint32_t rank) { return rank + 1; }
  // left op right.
  Id combine(Id left, Id right) {
    const uint64_t key = uint64_t(left) << 32 | right;
    const auto [found, is_new] = known_.try_emplace(key, Id(nodes_.size()));
    if (is_new) {
      const uint64_t size = uint64_t(nodes_[left].size) + nodes_[right].size;
      nodes_.push_back({left, right, uint32_t(std::min<uint64_t>(size, UINT32_MAX)),
                        mix(nodes_[left].hash, mix(nodes_[right].hash, key_salt))});
    }
    return found->second;
  }

  // How many contributions there are, counted with multiplicity.
  uint32_t size(Id id) const { return nodes_[id].size; }

  // The contributions from left to right, at most `most` of them.
  std::vector<uint32_t> contributions(Id id, size_t most) const {
    std::vector<uint32_t> ranks;
    std::vector<Id> todo = {id};
    while (!todo.empty() && ranks.size() < most) {
      const Id next = todo.back();
      todo.pop_back();
      if (nodes_[next].left == none) {
        ranks.push_back(next - 1);
      } else {
        todo.push_back(nodes_[next].right);
        todo.push_back(nodes_[next].left);
      }
    }
    return ranks;
  }

  // Equal trees have equal ids, in every run.
  std::string tree_id(Id id) const {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text = "t-";
    for (int shift = 60; shift >= 20; shift -= 4) text += digits[nodes_[id].hash >> shift & 15];
    return text;
  }

 private:
  static constexpr uint64_t key_salt = 0x13198a2e03707344u;
  struct Node {
    Id left = none, right = none;  // none: a leaf
    uint32_t size = 0;
    uint64_t hash = 0;
  };
  static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t hash = (a ^ (b >> 31) ^ (b << 33)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 29;
    return hash * 0xc4ceb9fe1a85ec53u + b;
  }

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, Id> known_;
};

}  // namespace tutti::schedule
