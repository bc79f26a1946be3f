#include "lib/select/trial.h"

#include <algorithm>
#include <cmath>

namespace tutti {

namespace {

constexpr uint32_t most_part = 0x3f;

uint32_t part_for(double ratio) {
  return uint32_t(std::clamp(std::lround(32 * std::log2(ratio)), 0L, long(most_part)));
}

}  // namespace

Trial::Trial(uint32_t ways, bool long_calls)
    : pace_(long_calls ? &of_long_calls : &of_short_calls),
      ways_(std::clamp(ways, 1u, most_ways)) {}

uint32_t Trial::begin() {
  timed_ = false;
  current_ = settled_;
  if (steps_left_ == 0) {
    if (looking_) {
      looking_ = false;
      open_ = true;
      until_look_ = looks_ == 1 ? pace_->first_pause : pace_->later_pause;
    }
    if (until_look_ != 0) [[likely]] {
      --until_look_;
      return settled_;
    }
    begin_look();
  }
  const Look& look = looks_ == 1 ? pace_->first : pace_->later;
  const uint32_t step = look.rounds * ways_ * look.stretch - steps_left_--;
  const uint32_t way = step / look.stretch % ways_, at = step % look.stretch;
  if (!tries(way) || at >= how_[way]->stretch) return settled_;
  timed_ = at >= how_[way]->untimed;
  return current_ = way;
}

const Trial::Look* Trial::look_of(uint32_t way) const {
  if (looks_ == 1) return &pace_->first;
  const bool second = looks_ == 2, fourth = looks_ % 4 == 1, thorough = second || fourth;
  if (means_[way] > means_[settled_] + hopeless)
    return fourth || (second && pace_->second_tries_all) ? &pace_->brief : nullptr;
  const bool is_far = means_[way] > means_[settled_] + far;
  return is_far && !thorough ? &pace_->brief : &pace_->later;
}

void Trial::begin_look() {
  const Look& look = looks_++ == 0 ? pace_->first : pace_->later;
  looking_ = true;
  open_ = false;  // also where the look before was never settled
  steps_left_ = look.rounds * ways_ * look.stretch;
  for (uint32_t way = 0; way < ways_; ++way) {
    how_[way] = look_of(way);
    if (tries(way)) samples_[way].count = 0;
  }
}

void Trial::tell(uint64_t call_ns) {
  Samples& samples = samples_[current_];
  if (samples.count < most_samples) samples.ns[samples.count++] = std::max<uint64_t>(call_ns, 1);
  timed_ = false;
}

uint64_t Trial::median_ns(uint32_t way) const {
  const Samples& samples = samples_[way];
  if (samples.count == 0) return 0;
  std::array<uint64_t, most_samples> sorted = samples.ns;
  const auto middle = sorted.begin() + (samples.count - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + samples.count);
  return *middle;
}

Verdict Trial::verdict() const {
  uint64_t least = 0;
  for (uint32_t way = 0; way < ways_; ++way) {
    const uint64_t median = tries(way) ? median_ns(way) : 0;
    if (median != 0 && (least == 0 || median < least)) least = median;
  }
  Verdict verdict = 0;
  for (uint32_t way = 0; way < ways_; ++way) {
    const uint64_t median = tries(way) ? median_ns(way) : 0;
    const uint32_t part = median != 0 ? part_for(double(median) / double(least)) : most_part;
    verdict |= Verdict(part) << 6 * way;
  }
  return verdict;
}

void Trial::settle(std::span<const Verdict> all) {
  open_ = false;
  if (all.empty()) return;
  uint32_t best = settled_;
  for (uint32_t way = 0; way < ways_; ++way) {
    if (!tries(way)) continue;
    uint64_t sum = 0;
    for (const Verdict each : all) sum += part_of(each, way);
    means_[way] = sum / all.size();
  }
  for (uint32_t way = 0; way < ways_; ++way) {
    if (tries(way) && means_[way] < means_[best]) best = way;
  }
  if (looks_ == 1 || means_[best] + margin <= means_[settled_]) settled_ = best;
}

}  // namespace tutti
