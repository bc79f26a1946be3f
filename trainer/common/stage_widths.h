// How many ranks hold each stage of a pipeline, and which of them computes which micro-batch. Pure.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "trainer/common/error.h"

namespace tutti::train {

// The numbers of a list, 1,2,1 for example. Throws BadInput, "OPTION LIST: 'WORD' otherwise",
// unless each fits.
inline std::vector<int> numbers_of(const char* option, const std::string& list,
                                   const char* otherwise, bool (*fits)(long long number)) {
  std::vector<int> numbers;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long long number = std::strtoll(word.c_str(), &end, 10);
    if (word.empty() || *end || !fits(number))
      throw BadInput(fmt::format("{} {}: '{}' {}", option, list, word, otherwise));
    numbers.push_back(int(number));
  }
  return numbers;
}

// Ranks that hold the same stage (its replicas) take micro-batches in turn. Micro-batches enter in
// an order that gives every replica equally many consecutive shards, so the sum over a replica's
// shards is a node of the canonical tree over all shards.
class StageWidths {
 public:
  // Numbers of ranks, powers of two. The ranks of stage 0 come first.
  explicit StageWidths(std::vector<int> widths) : widths_(std::move(widths)), first_{0} {
    for (const int width : widths_) first_.push_back(first_.back() + width);
  }
  // As in --stage-widths; one rank each where that is empty. Throws BadInput.
  static StageWidths parsed(const std::string& text, int stages) {
    if (text.empty()) return StageWidths(std::vector(size_t(stages), 1));
    const std::vector<int> widths = numbers_of(
        "--stage-widths", text, "is not 1, 2, 4, 8 ...",
        [](long long n) { return n >= 1 && n <= 1024 && std::has_single_bit(uint64_t(n)); });
    if (int(widths.size()) != stages)
      throw BadInput(fmt::format("--stage-widths {} lists {} stages, but --pp {} has {}", text,
                                 widths.size(), stages, stages));
    return StageWidths(widths);
  }

  int stages() const { return int(widths_.size()); }
  int ranks() const { return first_.back(); }
  int width(int stage) const { return widths_[size_t(stage)]; }
  int widest() const { return *std::max_element(widths_.begin(), widths_.end()); }

  int stage(int rank) const {
    return int(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1;
  }
  int replica(int rank) const { return rank - first_[size_t(stage(rank))]; }
  // The first rank of the stage, and the rank of it that computes the micro-batch entering i-th.
  int lead(int stage) const { return first_[size_t(stage)]; }
  int rank(int stage, int i) const { return lead(stage) + i % width(stage); }
  // "2", or "2.0" and "2.1" where two ranks hold the stage.
  std::string name(int rank) const {
    const int s = stage(rank);
    return width(s) == 1 ? fmt::to_string(s) : fmt::format("{}.{}", s, replica(rank));
  }

  // The number of the shard that enters i-th. `micro_batches`, the number of shards, is a multiple
  // of the widest stage's width.
  // The shards are cut into one range for each rank of the widest stage; micro-batches take a shard
  // from each range in turn, in bit-reversed order of the ranges. The micro-batches of one replica
  // have the same lowest bits of i, so the numbers of its ranges have the same highest bits: the
  // ranges are adjacent.
  int shard(int i, int micro_batches) const {
    const int all = widest();
    return reversed(i % all, all) * (micro_batches / all) + i / all;
  }
  // The replica's shards are [part * n, (part + 1) * n), n = micro_batches / width.
  int part(int rank) const { return reversed(replica(rank), width(stage(rank))); }

 private:
  // The bits of value < width, a power of two, in the opposite order.
  static int reversed(int value, int width) {
    int out = 0;
    for (int bit = 1; bit < width; bit *= 2) out = 2 * out + ((value & bit) != 0 ? 1 : 0);
    return out;
  }

  std::vector<int> widths_, first_;  // first_ has one more entry: the number of ranks
};

}  // namespace tutti::train
