#include "trainer/sync/server_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/common/error.h"
#include "trainer/pipeline/partition.h"

namespace tutti::train {

std::vector<Range> server_parts(const Options& o, const Layout& layout) {
  std::vector<Range> parts;
  if (o.optimizer != "lamb" || o.servers == 1) {
    for (int s = 0; s < o.servers; ++s) {
      const Span part = part_of(int64_t(elements_of(layout)), o.servers, s);
      parts.push_back({size_t(part.begin), size_t(part.end)});
    }
    return parts;
  }
  if (layout.size() < size_t(o.servers))
    throw BadInput(
        fmt::format("--servers {} with --optimizer lamb, which needs whole tensors: the model has "
                    "{} only",
                    o.servers, layout.size()));
  std::vector<double> sizes;
  sizes.reserve(layout.size());
  for (const Parameter& p : layout) sizes.push_back(double(p.count));
  for (const Range& tensors : balanced_cut(sizes, std::vector(size_t(o.servers), 1))) {
    const Parameter& last = layout[tensors.end - 1];
    parts.push_back({layout[tensors.begin].offset, last.offset + last.count});
  }
  return parts;
}

double largest_part(const Options& o, const Layout& layout) {
  size_t most = 0;
  for (const Range& part : server_parts(o, layout)) most = std::max(most, part.size());
  return double(o.element_bytes() * most);
}

ServerCore make_core(const ServerRule& rule, const Options& o, const Layout& layout,
                     std::span<const float> initial, const Range& range) {
  OptimizerSettings settings = optimizer_settings(o);
  if (!rule.rounds) settings.steps *= o.dp;  // every gradient is an update
  return ServerCore(rule, Optimizer(settings, layout, {range}), range, slice(initial, range), o.dp);
}

double server_scale(const ServerRule& rule, const Options& o, int64_t own_samples, double terms) {
  if (!rule.rounds) return 1 / (double(own_samples) * terms);
  // The mean over the gradients that an update takes.
  const double samples =
      rule.takes_all(o.dp) ? double(o.batch) : double(own_samples) * double(rule.needed);
  return 1 / (samples * terms);
}

}  // namespace tutti::train
