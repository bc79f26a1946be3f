// What a parameter server does with gradients, without threads, messages or clocks: the same calls
// in the same order give the same bits, so that a log of them can be replayed.
//
// Two rules. *Rounds* (synchronous, backup workers): a step takes the first `needed` gradients of
// that step, sums them in rank order of the workers and makes one update; gradients that arrive
// later for that step are dropped. *At once* (asynchronous, stale-synchronous): every gradient is
// applied when it arrives; a worker goes on only while it is no more than `bound` iterations ahead
// of the slowest (Ho et al. 2013). An update with a gradient that overflowed is left out and
// counts.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/parallel/optimizer.h"

namespace tutti::train {

struct ServerRule {
  bool rounds = true;
  int needed = 0;  // rounds: gradients that an update takes
  int64_t steps = 0;
  int64_t bound = std::numeric_limits<int64_t>::max();
  bool staleness_aware = false;  // divide the rate by the staleness (Zhang et al. 2016)
  float compensation = 0;        // lambda of DC-ASGD (Zheng et al. 2017)
  bool agreed_order = false;  // with several servers, server 0 decides which gradients were first

  // Whether an update takes a gradient of each of the workers, which then have one loss scale.
  bool takes_all(int workers) const { return rounds && needed == workers; }
};

class ServerCore {
 public:
  // `range`: its part of the flat vector; `initial`: the parameters there.
  ServerCore(ServerRule rule, Optimizer optimizer, Range range, std::span<const float> initial,
             int workers)
      : rule_(rule),
        optimizer_(std::move(optimizer)),
        range_(range),
        parameters_(initial.begin(), initial.end()),
        sum_(initial.size()),
        workers_(size_t(workers)) {
    if (rule_.compensation != 0)
      for (Seen& seen : workers_) seen.read = parameters_;
  }

  // The gradient of iteration `clock` of the worker. Returns whether it was used or kept. The
  // contents of a gradient that is too late (`is_late`) are not read.
  bool push(int worker, int64_t clock, std::span<const float> gradient, bool overflow = false) {
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
  bool is_late(int64_t clock) const { return rule_.rounds && clock != version_; }
  // Whether the worker, which has pushed, may read the parameters now.
  bool may_read(int worker) const {
    const Seen& own = workers_[size_t(worker)];
    if (rule_.rounds) return version_ >= rule_.steps || !round_.contains(worker);
    int64_t least = own.clock;
    for (const Seen& seen : workers_)
      if (seen.active) least = std::min(least, seen.clock);
    return own.clock - least <= rule_.bound;
  }
  // The worker reads parameters() as they are now. Returns the iteration that it does next.
  int64_t read(int worker) {
    Seen& seen = workers_[size_t(worker)];
    seen.read_version = version_;
    if (rule_.compensation != 0) seen.read = parameters_;
    return rule_.rounds ? version_ : seen.clock;
  }
  // After a checkpoint has been loaded into parameters(): all workers have completed `clock`
  // iterations and read these parameters. `skipped`: updates that were left out.
  void resume(int64_t clock, int64_t skipped) {
    skipped_ = skipped;
    version_ = rule_.rounds ? clock : clock * int64_t(workers_.size());
    for (Seen& seen : workers_) {
      seen.clock = clock;
      seen.read_version = version_;
      if (rule_.compensation != 0) seen.read = parameters_;
    }
  }
  // So many workers go on from the parameters as they are, by this rule; gradients of a step that
  // was not made are dropped.
  void restart(const ServerRule& rule, int workers) {
    rule_ = rule;
    round_.clear();
    overflow_ = false;
    workers_.assign(size_t(workers), {});
    resume(version_, skipped_);
  }
  // The worker will not push again; the others do not wait for it, and a round takes what can still
  // come.
  void leave(int worker) {
    workers_[size_t(worker)].active = false;
    if (rule_.rounds && !round_.empty() && int(round_.size()) >= needed()) close_round();
  }

  std::span<const float> parameters() const { return parameters_; }
  std::span<float> parameters() { return parameters_; }
  Optimizer& optimizer() { return optimizer_; }
  const Range& range() const { return range_; }
  int64_t updates() const { return version_; }  // those that were left out, too
  int64_t skipped() const { return skipped_; }
  bool left_out() const { return left_out_; }  // the last update
  // Of the last update: the number of updates between the worker's read and its push.
  int64_t staleness() const { return staleness_; }

 private:
  void update(std::span<const float> gradient, double factor) {
    optimizer_.step(version_, range_, parameters_, gradient, factor, skipped_);
    ++version_;
    left_out_ = false;
  }
  void leave_out() {
    ++version_;
    ++skipped_;
    left_out_ = true;
  }
  void close_round() {
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
  // Gradients that a round takes.
  int needed() const {
    const auto active = std::count_if(workers_.begin(), workers_.end(),
                                      [](const Seen& seen) { return seen.active; });
    return std::min(rule_.needed, int(active));
  }

  ServerRule rule_;
  Optimizer optimizer_;
  Range range_;
  std::vector<float> parameters_;
  std::vector<float> sum_;
  int64_t version_ = 0;
  int64_t skipped_ = 0;
  bool left_out_ = false;
  int64_t staleness_ = 0;
  struct Seen {
    int64_t clock = 0;         // iterations completed
    int64_t read_version = 0;  // when it last read
    bool active = true;
    std::vector<float> read;  // what it read, for compensation
  };
  std::vector<Seen> workers_;
  std::map<int, std::vector<float>> round_;  // gradients of this round, by worker
  bool overflow_ = false;                    // of one of them
};

// The part of the flat vector that each server holds. The parts are equal, except for lamb, whose
// norms are over whole layers: its parts are whole tensors, the largest as small as possible.
// Throws BadInput if there are fewer tensors than servers.
std::vector<Range> server_parts(const Options& options, const Layout& layout);
// Bytes of the largest part.
double largest_part(const Options& options, const Layout& layout);
// The server of that part. `initial`: all parameters; the server copies its part.
ServerCore make_core(const ServerRule& rule, const Options& options, const Layout& layout,
                     std::span<const float> initial, const Range& range);
// The factor by which every worker multiplies the sum of its losses.
double server_scale(const ServerRule& rule, const Options& options, int64_t own_samples,
                    double terms);

}  // namespace tutti::train
