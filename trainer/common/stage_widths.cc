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

int width_of(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const long long width = std::strtoll(word.c_str(), &end, 10);
  if (word.empty() || *end || width < 1 || width > 1024 || !std::has_single_bit(uint64_t(width)))
    throw BadInput(fmt::format("--stage-widths {}: '{}' is not 1, 2, 4, 8 ...", text, word));
  return int(width);
}

}  // namespace

StageWidths::StageWidths(std::vector<int> widths) : widths_(std::move(widths)), first_{0} {
  for (const int width : widths_) first_.push_back(first_.back() + width);
}

StageWidths StageWidths::parsed(const std::string& text, int stages) {
  if (text.empty()) return StageWidths(std::vector(size_t(stages), 1));
  std::vector<int> widths;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) widths.push_back(width_of(word, text));
  if (int(widths.size()) != stages)
    throw BadInput(fmt::format("--stage-widths {} lists {} stages, but --pp {} has {}", text,
                               widths.size(), stages, stages));
  return StageWidths(std::move(widths));
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
