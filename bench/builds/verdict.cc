#include "bench/builds/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tutti::bench::builds {
namespace {

using Samples = std::vector<Sample>;

// Hop times that differ by less than this factor belong to one state.
constexpr double one_state = 2.0;
// A start counts in a state only with at least so many turns in it.
constexpr size_t least_turns = 5;

double quantile(std::vector<double> values, double fraction) {
  const double at = fraction * double(values.size() - 1);
  const auto below = size_t(at);
  std::nth_element(values.begin(), values.begin() + ptrdiff_t(below), values.end());
  const double low = values[below];
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(values.begin() + ptrdiff_t(below) + 1, values.end());
  return low + (at - double(below)) * (high - low);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

template <class Value>
std::vector<double> all(const Samples& samples, Value value) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(value(sample));
  return values;
}

// The hop time that separates the two states; 0 if there is only one. Outliers, 5 % on each side,
// make no state.
double threshold_of(const Samples& samples) {
  const auto hops = all(samples, [](const Sample& s) { return s.hop_after_ns; });
  const double low = quantile(hops, 0.05), high = quantile(hops, 0.95);
  return low > 0 && high > low * one_state ? std::sqrt(low * high) : 0;
}

double median_base_us(const Samples& samples) {
  return median(all(samples, [](const Sample& s) { return s.base_us; }));
}
double median_new_us(const Samples& samples) {
  return median(all(samples, [](const Sample& s) { return s.new_us; }));
}
double median_hop_ns(const Samples& samples) {
  return median(all(samples, [](const Sample& s) { return s.hop_after_ns; }));
}

double geometric_mean(const std::vector<double>& ratios) {
  double logs = 0;
  for (const double ratio : ratios) logs += std::log(ratio);
  return std::exp(logs / double(ratios.size()));
}

// The standard error of the ratios' mean; 0 for a single ratio.
double error_percent(const std::vector<double>& ratios, double mean) {
  if (ratios.size() < 2) return 0;
  double squares = 0;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio / mean), 2);
  return 100 * std::sqrt(squares / double(ratios.size() - 1) / double(ratios.size()));
}

// The row of one cell; it has no turns if no start counts.
Row make_row(size_t cell, const Samples& samples) {
  std::map<uint32_t, Samples> starts;
  for (const Sample& sample : samples) starts[sample.start].push_back(sample);
  std::erase_if(starts, [](const auto& start) { return start.second.size() < least_turns; });
  Row row{cell, starts.size()};
  if (starts.empty()) return row;

  Samples counting;
  std::vector<double> ratios;
  for (const auto& [number, turns] : starts) {
    counting.insert(counting.end(), turns.begin(), turns.end());
    ratios.push_back(median_new_us(turns) / median_base_us(turns));
  }
  row.turns = counting.size();
  row.hop_ns = median_hop_ns(counting);
  row.base_us = median_base_us(counting);
  row.new_us = median_new_us(counting);
  row.ratio = geometric_mean(ratios);
  row.ratio_p25 = quantile(ratios, 0.25);
  row.ratio_p75 = quantile(ratios, 0.75);
  row.error_percent = error_percent(ratios, row.ratio);
  return row;
}

State make_state(const Samples& samples, size_t cells) {
  State state;
  state.hop_ns = median_hop_ns(samples);
  std::vector<double> ratios;
  for (size_t cell = 0; cell < cells; ++cell) {
    Samples of_cell;
    for (const Sample& sample : samples)
      if (sample.cell == cell) of_cell.push_back(sample);
    const Row row = make_row(cell, of_cell);
    if (row.turns == 0) continue;
    state.rows.push_back(row);
    ratios.push_back(row.ratio);
  }
  if (ratios.empty()) return state;
  state.mean_ratio = geometric_mean(ratios);
  state.worst = size_t(std::max_element(ratios.begin(), ratios.end()) - ratios.begin());
  return state;
}

}  // namespace

Verdict judge(const Samples& samples, size_t cells) {
  const double threshold = samples.empty() ? 0 : threshold_of(samples);
  Samples fast, slow;
  Verdict verdict;
  for (const Sample& sample : samples) {
    const bool before = sample.hop_before_ns > threshold, after = sample.hop_after_ns > threshold;
    if (threshold == 0 || (!before && !after))
      fast.push_back(sample);
    else if (before && after)
      slow.push_back(sample);
    else
      ++verdict.flips;
  }
  for (const auto* in_state : {&fast, &slow}) {
    if (in_state->empty()) continue;
    State state = make_state(*in_state, cells);
    if (!state.rows.empty()) verdict.states.push_back(std::move(state));
  }
  return verdict;
}

bool exceeds(const Verdict& verdict, double percent) {
  for (const State& state : verdict.states)
    if (state.rows[state.worst].ratio > 1 + percent / 100) return true;
  return false;
}

}  // namespace tutti::bench::builds
