#include "trainer/sync/volume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::train {

std::string megabytes(double bytes) { return fmt::format("{:.2f} MB", bytes / 1e6); }

Volume allreduce_volume(const std::string& algorithm, int ranks, double bytes) {
  if (ranks == 1) return {};
  const double p = ranks;
  double l = 0;
  while (std::exp2(l + 1) <= p) ++l;
  const double q = std::exp2(l);
  const double extra = q < p ? 1 : 0;
  const double up = l + extra;  // of the logarithm
  if (algorithm == "ring" || algorithm == "two-shot" || algorithm == "round-robin")
    return {2 * (p - 1) / p * bytes, 2 * (p - 1)};
  if (algorithm == "circulant") return {2 * (p - 1) / p * bytes, 2 * up};
  if (algorithm == "butterfly") return {(l + extra) * bytes, l + extra};
  if (algorithm == "halving-doubling") return {(2 * (q - 1) / q + extra) * bytes, 2 * l + extra};
  if (algorithm == "master-worker" || algorithm == "all-to-all") return {(p - 1) * bytes, p - 1};
  if (algorithm == "tree") return {up * bytes, up};
  if (algorithm == "two-level") {
    const double vectors = ranks % 2 == 0 ? p / 2 : p - 1;
    return {vectors * bytes, vectors};
  }
  return no_formula;
}

Volume scatter_volume(int ranks, double bytes) {
  return {double(ranks - 1) / ranks * bytes, double(ranks - 1)};
}

// Indices and values to the owners of the indices, then each owner's k sums to all others; before
// each of the two, the counts.
Volume topk_volume(int ranks, size_t k) {
  const double p = ranks;
  return {8 * double(k) * ((p - 1) / p + (p - 1)), 4 * (p - 1)};
}

size_t largest_of(double fraction, size_t count) {
  return std::clamp<size_t>(size_t(std::ceil(fraction * double(count))), 1, count);
}

}  // namespace tutti::train
