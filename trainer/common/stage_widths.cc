#include "trainer/common/stage_widths.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// The bits of value < width, a power of two, in the opposite order.
int reversed(int value, int width) {
  int out = 0;
  for (int bit = 1; bit < width; bit *= 2) out = 2 * out + ((value & bit) != 0 ? 1 : 0);
  return out;
}

}  // namespace

StageWidths::StageWidths(std::vector<int> widths) : widths_(std::move(widths)), first_{0} {
  for (const int width : widths_) first_.push_back(first_.back() + width);
}

std::vector<int> numbers_of(const char* option, const std::string& list, const char* otherwise,
                            bool (*fits)(long long number)) {
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

StageWidths StageWidths::parsed(const std::string& text, int stages) {
  if (text.empty()) return StageWidths(std::vector(size_t(stages), 1));
  const std::vector<int> widths = numbers_of(
      "--stage-widths", text, "is not 1, 2, 4, 8 ...",
      [](long long n) { return n >= 1 && n <= 1024 && std::has_single_bit(uint64_t(n)); });
  if (int(widths.size()) != stages)
    throw BadInput(fmt::format("--stage-widths {} lists {} stages, but --pp {} has {}", text,
                               widths.size(), stages, stages));
  return StageWidths(widths);
}

int StageWidths::widest() const { return *std::max_element(widths_.begin(), widths_.end()); }

int StageWidths::stage(int rank) const {
  return int(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1;
}

std::string StageWidths::name(int rank) const {
  const int s = stage(rank);
  return width(s) == 1 ? fmt::to_string(s) : fmt::format("{}.{}", s, replica(rank));
}

// The shards are cut into one range for each rank of the widest stage; micro-batches take a shard
// from each range in turn, in bit-reversed order of the ranges. The micro-batches of one replica
// have the same lowest bits of i, so the numbers of its ranges have the same highest bits: the
// ranges are adjacent.
int StageWidths::shard(int i, int micro_batches) const {
  const int all = widest();
  return reversed(i % all, all) * (micro_batches / all) + i / all;
}

int StageWidths::part(int rank) const { return reversed(replica(rank), width(stage(rank))); }

}  // namespace tutti::train
