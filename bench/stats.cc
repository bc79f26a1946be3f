#include "bench/stats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti::bench {
namespace {

// Hop times that differ by less than this factor belong to one state.
constexpr double one_state = 2.0;

double nearest_rank(const std::vector<double>& sorted, double fraction) {
  auto rank = size_t(std::ceil(fraction * double(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Summary summarise(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted.front(), median_of(sorted), nearest_rank(sorted, 0.95),
          nearest_rank(sorted, 0.99)};
}

StateFilter majority_state(std::span<const double> hops) {
  size_t segments = hops.empty() ? 0 : hops.size() - 1;
  StateFilter all{std::vector<bool>(segments, true), median_of({hops.begin(), hops.end()})};
  if (segments == 0) return all;
  auto [low, high] = std::minmax_element(hops.begin(), hops.end());
  if (*low <= 0 || *high < *low * one_state) return all;

  const double threshold = std::sqrt(*low * *high);
  auto slow = [&](size_t hop) { return hops[hop] > threshold; };
  size_t fast_segments = 0, slow_segments = 0;
  for (size_t i = 0; i < segments; ++i) {
    if (slow(i) != slow(i + 1)) continue;
    ++(slow(i) ? slow_segments : fast_segments);
  }
  if (fast_segments + slow_segments == 0) return all;

  const bool want_slow = slow_segments > fast_segments;
  StateFilter out{std::vector<bool>(segments), 0};
  std::vector<double> kept;
  for (size_t i = 0; i < segments; ++i) {
    out.keep[i] = slow(i) == want_slow && slow(i + 1) == want_slow;
    if (out.keep[i]) kept.push_back((hops[i] + hops[i + 1]) / 2);
  }
  out.hop_ns = median_of(kept);
  return out;
}

}  // namespace tutti::bench
