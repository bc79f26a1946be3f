#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "bench/clock.h"
#include "bench/hop.h"

namespace tutti::bench {
namespace {

constexpr double batch_room = 1.5;  // in case the machine gets faster
constexpr int calibrations = 4;
// Of live data the calls alone are in a batch's time, and where ranks share cores all around them
// may take a thousand times as long.
constexpr double most_batch_us = 2000;
constexpr double segment_us = 5000;  // between two measurements of the hop
constexpr size_t least_rounds = 5;
constexpr size_t most_rounds = 400;

class Run {
 public:
  Run(const Rank& me, SharedMap* map, const std::vector<Subject*>& subjects, const Method& method)
      : me_(me),
        map_(map),
        subjects_(subjects),
        method_(method),
        iterations_(subjects.size(), 1),
        times_(subjects.size()),
        random_(20240229) {}

  // The least time of a few batches: a single delayed one would make all batches too short.
  double least_us(size_t i) {
    const auto begin = Clock::now();
    double least = agreed_us(i);
    for (int again = 1; again < calibrations; ++again) least = std::min(least, agreed_us(i));
    whole_us_ = me_.max(us_since(begin)) / calibrations;
    return least;
  }

  // Determines the calls per batch; also warms up.
  void calibrate() {
    for (size_t i = 0; i < subjects_.size(); ++i) {
      if (method_.iterations) {
        iterations_[i] = method_.iterations;
        round_us_ += agreed_us(i);
        continue;
      }
      double us = least_us(i);
      while (us < method_.least_batch_us && whole_us_ < most_batch_us &&
             iterations_[i] < method_.most_iterations) {
        const double wanted = batch_room * method_.least_batch_us;
        const double factor = std::clamp(wanted / std::max(us, 0.1), 2.0, 8.0);
        iterations_[i] = std::min(size_t(double(iterations_[i]) * factor), method_.most_iterations);
        us = least_us(i);
      }
      round_us_ += std::max(us, whole_us_);
    }
  }

  void segments(const std::function<void(double)>& progress) {
    const auto begin = Clock::now();
    hops_.push_back(hop());
    for (bool more = true; more;) {
      for (size_t i = 0; i < rounds_a_segment(); ++i) round();
      segment_ends_.push_back(times_.front().size());
      hops_.push_back(hop());
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      const double done = fraction(times_.front().size(), seconds);
      progress(std::min(done, 1.0));
      more = me_.from_first(done) < 1;
    }
  }

  Measurement result() {
    for (auto& times : times_) me_.max_in_place(times);
    const StateFilter filter = majority_state(hops_);
    Measurement out;
    out.hop_ns = filter.hop_ns;
    for (size_t i = 0; i < subjects_.size(); ++i) {
      Timing timing{iterations_[i], 0, {}};
      size_t batch = 0;
      for (size_t segment = 0; segment < segment_ends_.size(); ++segment) {
        for (; batch < segment_ends_[segment]; ++batch) {
          if (filter.keep[segment])
            timing.batch_us.push_back(times_[i][batch] / double(iterations_[i]));
          else
            ++timing.dropped;
        }
      }
      out.timings.push_back(std::move(timing));
    }
    return out;
  }

 private:
  double agreed_us(size_t i) {
    me_.barrier();
    return me_.max(subjects_[i]->run_us(iterations_[i]));
  }

  // All subjects once, in an order that is random but the same on all ranks.
  void round() {
    std::vector<size_t> order(subjects_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (size_t i : order) {
      me_.barrier();
      times_[i].push_back(subjects_[i]->run_us(iterations_[i]));
    }
  }

  size_t rounds_a_segment() const {
    const auto rounds = std::max<size_t>(1, size_t(segment_us / std::max(round_us_, 1.0)));
    if (!method_.batches) return std::min(rounds, most_rounds / 20);
    return std::min(rounds, method_.batches - times_.front().size());
  }

  double fraction(size_t rounds, double seconds) const {
    if (method_.batches) return double(rounds) / double(method_.batches);
    if (rounds >= most_rounds) return 1;
    return std::min(seconds / method_.seconds, double(rounds) / double(least_rounds));
  }

  double hop() {
    if (!map_) return 0;
    double ns = 0;
    map_->alone(me_, [&] { ns = measure_hop_ns(); });
    return me_.from_first(ns);
  }

  const Rank& me_;
  SharedMap* map_;
  const std::vector<Subject*>& subjects_;
  const Method& method_;
  std::vector<size_t> iterations_;
  std::vector<std::vector<double>> times_;  // [subject][batch], this rank's
  std::vector<size_t> segment_ends_;        // batches until the end of each segment
  std::vector<double> hops_;
  std::mt19937 random_;
  double round_us_ = 0;
  double whole_us_ = 0;  // of the batch that was calibrated last, with all around its calls
};

}  // namespace

double Subject::run_us(size_t calls) {
  const auto begin = Clock::now();
  run(calls);
  return us_since(begin);
}

Measurement measure(const Rank& me, SharedMap* map, const std::vector<Subject*>& subjects,
                    const Method& method, const std::function<void(double)>& progress) {
  if (subjects.empty()) return {};
  Run run(me, map, subjects, method);
  run.calibrate();
  run.segments(progress);
  return run.result();
}

}  // namespace tutti::bench
