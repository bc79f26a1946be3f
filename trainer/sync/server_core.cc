#include "trainer/sync/server_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/pipeline/partition.h"

namespace tutti::train {

ServerCore::ServerCore(ServerRule rule, Optimizer optimizer, Range range,
                       std::span<const float> initial, int workers)
    : rule_(rule),
      optimizer_(std::move(optimizer)),
      range_(range),
      parameters_(initial.begin(), initial.end()),
      sum_(initial.size()),
      workers_(size_t(workers)) {
  if (rule_.compensation != 0)
    for (Seen& seen : workers_) seen.read = parameters_;
}

void ServerCore::update(std::span<const float> gradient, double factor) {
  optimizer_.step(version_, range_, parameters_, gradient, factor, skipped_);
  ++version_;
  left_out_ = false;
}

void ServerCore::leave_out() {
  ++version_;
  ++skipped_;
  left_out_ = true;
}

void ServerCore::close_round() {
  if (std::exchange(overflow_, false)) {
    leave_out();
  } else {
    std::vector<const float*> gradients;
    for (const auto& [worker, gradient] : round_) gradients.push_back(gradient.data());
    reduce_local<float>(gradients, sum_, TUTTI_SUM, TUTTI_LEVEL_FAST);
    update(sum_, 1);
  }
  round_.clear();
}

bool ServerCore::push(int worker, int64_t clock, std::span<const float> gradient, bool overflow) {
  Seen& seen = workers_[size_t(worker)];
  seen.clock = clock + 1;
  if (rule_.rounds) {
    staleness_ = 0;
    if (is_late(clock)) return false;
    round_[worker].assign(gradient.begin(), gradient.end());
    overflow_ |= overflow;
    if (int(round_.size()) >= needed()) close_round();
    return true;
  }
  staleness_ = version_ - seen.read_version;
  if (overflow) {
    leave_out();
    return false;
  }
  const double factor =
      rule_.staleness_aware ? 1.0 / double(std::max<int64_t>(1, staleness_)) : 1.0;
  if (rule_.compensation == 0) {
    update(gradient, factor);
    return true;
  }
  for (size_t i = 0; i < sum_.size(); ++i)
    sum_[i] = gradient[i] +
              rule_.compensation * gradient[i] * gradient[i] * (parameters_[i] - seen.read[i]);
  update(sum_, factor);
  return true;
}

bool ServerCore::may_read(int worker) const {
  const Seen& own = workers_[size_t(worker)];
  if (rule_.rounds) return version_ >= rule_.steps || !round_.contains(worker);
  int64_t least = own.clock;
  for (const Seen& seen : workers_)
    if (seen.active) least = std::min(least, seen.clock);
  return own.clock - least <= rule_.bound;
}

int64_t ServerCore::read(int worker) {
  Seen& seen = workers_[size_t(worker)];
  seen.read_version = version_;
  if (rule_.compensation != 0) seen.read = parameters_;
  return rule_.rounds ? version_ : seen.clock;
}

void ServerCore::resume(int64_t clock, int64_t skipped) {
  skipped_ = skipped;
  version_ = rule_.rounds ? clock : clock * int64_t(workers_.size());
  for (Seen& seen : workers_) {
    seen.clock = clock;
    seen.read_version = version_;
    if (rule_.compensation != 0) seen.read = parameters_;
  }
}

void ServerCore::restart(const ServerRule& rule, int workers) {
  rule_ = rule;
  round_.clear();
  overflow_ = false;
  workers_.assign(size_t(workers), {});
  resume(version_, skipped_);
}

// A round then takes what can still come.
void ServerCore::leave(int worker) {
  workers_[size_t(worker)].active = false;
  if (rule_.rounds && !round_.empty() && int(round_.size()) >= needed()) close_round();
}

int ServerCore::needed() const {
  const auto active =
      std::count_if(workers_.begin(), workers_.end(), [](const Seen& seen) { return seen.active; });
  return std::min(rule_.needed, int(active));
}

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
