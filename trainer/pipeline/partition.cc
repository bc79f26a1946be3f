#include "trainer/pipeline/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace tutti::train {

std::vector<Range> cut_layers(const std::vector<size_t>& counts) {
  std::vector<Range> parts;
  size_t at = 0;
  for (const size_t count : counts) {
    parts.push_back({at, at + count});
    at += count;
  }
  return parts;
}

std::vector<Range> balanced_cut(const std::vector<double>& costs, const std::vector<int>& widths) {
  const size_t n = costs.size(), parts = widths.size();
  std::vector<double> before(n + 1);  // of layers [0, i)
  for (size_t i = 0; i < n; ++i) before[i + 1] = before[i] + costs[i];
  // costliest[p][i]: the cost of the costliest part in the best cut of layers [0, i) into p parts;
  // last[p][i]: where that cut's last part begins.
  const double never = std::numeric_limits<double>::infinity();
  std::vector costliest(parts + 1, std::vector(n + 1, never));
  std::vector last(parts + 1, std::vector(n + 1, size_t(0)));
  costliest[0][0] = 0;
  for (size_t p = 1; p <= parts; ++p)
    for (size_t i = p; i <= n; ++i)
      for (size_t j = p - 1; j < i; ++j) {
        const double cost = std::max(costliest[p - 1][j], (before[i] - before[j]) / widths[p - 1]);
        if (cost < costliest[p][i]) {
          costliest[p][i] = cost;
          last[p][i] = j;
        }
      }
  std::vector<Range> cut(parts);
  size_t end = n;
  for (size_t p = parts; p > 0; --p) {
    cut[p - 1] = {last[p][end], end};
    end = last[p][end];
  }
  return cut;
}

namespace {

int part_of(const std::vector<Range>& parts, size_t layer) {
  int part = 0;
  while (layer >= parts[size_t(part)].end) ++part;
  return part;
}

std::vector<int64_t> of_one_sample(std::vector<int64_t> sizes) {
  sizes.front() = 1;
  return sizes;
}

}  // namespace

std::vector<Port> ports_of(const ModelFacts& facts, const std::vector<Range>& parts,
                           const std::vector<int>& widths, bool portals) {
  std::vector<Port> ports;
  for (int p = 0; p + 1 < int(parts.size()); ++p)
    ports.push_back(
        {p, p + 1, 0, "", of_one_sample(facts.layers[parts[size_t(p)].end - 1].output)});
  for (const ModelFacts::Skip& skip : facts.skips) {
    const int from = part_of(parts, skip.from), to = part_of(parts, skip.to);
    const auto sizes = skip.weight ? skip.sizes : of_one_sample(skip.sizes);
    const int hop = portals ? to - from : 1;
    for (int p = from; p < to; p += hop)
      ports.push_back({p, p + hop, skip.weight ? widths[size_t(p + hop)] : 0, skip.name, sizes});
  }
  return ports;
}

StageTime fit(double samples_a, double seconds_a, double samples_b, double seconds_b) {
  const double each = std::max(0.0, (seconds_b - seconds_a) / (samples_b - samples_a));
  return {std::max(0.0, seconds_a - each * samples_a), each};
}

std::vector<int> promising_micro_batches(const StageTime& time, int stages, int64_t samples,
                                         int multiple) {
  // The derivative of (m + k - 1) (fixed + each B / m) is 0 at the root of (k - 1) each B / fixed.
  const double best =
      std::sqrt(double(stages - 1) * time.each * double(samples) / std::max(time.fixed, 1e-9));
  const int64_t multiples = samples / multiple;
  const double most = double(multiples);
  std::set<int> found;
  // The optimum, and a quarter below and a third above it: the model is no more exact than that.
  for (const double m : {0.75 * best, best, 1.33 * best})
    for (const double whole : {std::floor(m / multiple), std::ceil(m / multiple)})
      found.insert(int(std::clamp(whole, 1.0, most)) * multiple);
  return {found.begin(), found.end()};
}

}  // namespace tutti::train
