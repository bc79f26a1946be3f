#include "trainer/sync/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "trainer/common/call.h"
#include "trainer/device/vectors.h"

namespace tutti::train {
namespace {

template <class Real>
class Dense : public Wire<Real> {
 public:
  explicit Dense(const Options& options) : options_(options) {}
  request begin(Calls& calls, size_t, std::span<Real> gradient) override {
    return calls.allreduce(gradient.data(), gradient.size(), dtype_of<Real>, call_config(options_));
  }
  Volume formula(const communicator& comm, size_t count) const override {
    return formula_of(options_, comm, count, dtype_of<Real>);
  }
  std::string about() const override {
    return fmt::format("an allreduce of fp{} for each bucket", 8 * sizeof(Real));
  }

 private:
  const Options& options_;
};

class Bf16 : public Wire<float> {
 public:
  Bf16(const Options& options, size_t buckets) : options_(options), encoded_(buckets) {}
  request begin(Calls& calls, size_t bucket, std::span<float> gradient) override {
    Buffer<uint16_t>& to = encoded_[bucket];
    if (to.size() != gradient.size()) to = Buffer<uint16_t>(calls.device(), gradient.size());
    to_bf16(calls.device(), gradient, to.span());
    return calls.allreduce(to.data(), to.size(), TUTTI_BFLOAT16, call_config(options_));
  }
  std::span<float> sum(const Device& device, size_t bucket, std::span<float> gradient) override {
    from_bf16(device, encoded_[bucket].span(), gradient);
    return gradient;
  }
  Volume formula(const communicator& comm, size_t count) const override {
    return formula_of(options_, comm, count, TUTTI_BFLOAT16);
  }
  std::string about() const override { return "an allreduce of bf16 for each bucket"; }

 private:
  const Options& options_;
  std::vector<Buffer<uint16_t>> encoded_;
};

// Every rank sends its largest values with their indices and keeps the rest (error feedback): what
// was sent and what is kept add up to the gradient. A value that overflowed is sent, as the
// largest, so that all ranks leave out that step.
class TopK : public Wire<float> {
 public:
  TopK(const Options& options, const std::vector<Bucket>& buckets)
      : fraction_(options.topk), may_leave_out_(options.clip || LossScale::of(options)) {
    for (const Bucket& bucket : buckets) {
      ranges_.push_back(range_of(bucket));
      largest_.emplace_back(bucket.count, largest_of(fraction_, bucket.count));
    }
    before_.resize(buckets.size());
  }
  request begin(Calls& calls, size_t bucket, std::span<float> gradient) override {
    if (may_leave_out_) {
      const std::span<const float> kept = largest_[bucket].residual();
      before_[bucket].assign(kept.begin(), kept.end());
    }
    const OnHost<float> here(calls.device(), gradient);
    check(tutti_topk_allreduce(TUTTI_IN_PLACE, here.values().data(), TUTTI_SUM,
                               largest_[bucket].get(), calls.comm().get()),
          calls.comm());
    here.store();
    return {};
  }
  bool nonblocking() const override { return false; }
  void leave_out() override {
    for (size_t b = 0; b < before_.size(); ++b)
      std::copy(before_[b].begin(), before_[b].end(), largest_[b].residual().begin());
  }
  Volume formula(const communicator& comm, size_t count) const override {
    return topk_volume(comm.size(), largest_of(fraction_, count));
  }
  std::vector<StateVector> state() override {
    StateVector kept{"kept", StateVector::Placement::local, ranges_, {}};
    for (const topk<float>& one : largest_)
      kept.values.push_back(std::as_writable_bytes(one.residual()));
    return {kept};
  }
  std::string about() const override {
    return fmt::format("the largest {:.3g} % of each bucket, the rest kept for later",
                       100 * fraction_);
  }

 private:
  double fraction_;
  bool may_leave_out_;
  std::vector<Range> ranges_;
  std::vector<topk<float>> largest_;
  std::vector<std::vector<float>> before_;  // of each, what it kept when the step began
};

// ZeRO stage 1 (Rajbhandari et al. 2020): every worker keeps the optimizer's state of its part of
// each bucket only. Gradients are reduce-scattered, every worker updates its parts, parameters are
// all-gathered: the bytes of an allreduce, and bitwise its result where both sum in the same order.
template <class Real>
class Sharded : public Wire<Real> {
 public:
  Sharded(const Worker& worker, const std::vector<Bucket>& buckets)
      : options_(worker.options), ranks_(worker.comm.size()), rank_(worker.comm.rank()) {
    for (const Bucket& bucket : buckets) {
      std::vector<size_t>& counts = counts_.emplace_back();
      for (int r = 0; r < ranks_; ++r) counts.push_back(share_of(bucket, ranks_, r).size());
      sums_.emplace_back(worker.replica.device(), part(bucket).size());
    }
  }
  request begin(Calls& calls, size_t bucket, std::span<Real> gradient) override {
    return calls.reduce_scatter(gradient.data(), sums_[bucket].data(), counts_[bucket],
                                dtype_of<Real>, call_config(options_));
  }
  std::span<Real> sum(const Device&, size_t bucket, std::span<Real>) override {
    return sums_[bucket].span();
  }
  bool sharded() const override { return true; }
  Range part(const Bucket& bucket) const override { return share_of(bucket, ranks_, rank_); }
  request gather(Calls& calls, size_t bucket, std::span<Real> parameters) override {
    return calls.allgather(parameters.data(), counts_[bucket], dtype_of<Real>);
  }
  Volume formula(const communicator& comm, size_t count) const override {
    Volume half = formula_of({GroupCall::Kind::allgather, count, dtype_of<Real>},
                             TUTTI_CALL_CONFIG_INIT, comm);
    return half += half;
  }
  std::string about() const override {
    return "a reduce_scatter of gradients and an allgather of parameters for each bucket";
  }

 private:
  const Options& options_;
  int ranks_, rank_;
  std::vector<std::vector<size_t>> counts_;  // of each bucket, what each rank has
  std::vector<Buffer<Real>> sums_;           // of each bucket, this rank's part
};

}  // namespace

tutti_call_config call_config(const Options& options) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  if (options.algorithm != "auto") config.algorithm = options.algorithm.c_str();
  if (options.canonical()) config.level = TUTTI_LEVEL_CANONICAL;
  return config;
}

Volume formula_of(const GroupCall& call, const tutti_call_config& config,
                  const communicator& comm) {
  if (comm.size() == 1) return {};
  const double bytes = double(call.count) * double(tutti_dtype_size(call.dtype));
  if (call.kind == GroupCall::Kind::message) return {bytes, 1};
  if (call.kind != GroupCall::Kind::allreduce) {
    // Every algorithm sends these bytes, but which one is taken is not known.
    Volume sent = scatter_volume(comm.size(), bytes);
    if (comm.size() > 2) sent.messages = no_formula.messages;
    return sent;
  }
  tutti_explanation explanation{};
  explanation.size = sizeof explanation;
  check(tutti_allreduce_explain(call.count, call.dtype, call.op, comm.get(), &config, &explanation),
        comm);
  const Volume sent = allreduce_volume(explanation.algorithm, comm.size(), bytes);
  // Ways that are tried are of other algorithms, unless one is asked for, or go direct, which
  // counts as two-shot.
  const Volume direct = allreduce_volume("two-shot", comm.size(), bytes);
  const bool one_volume = config.algorithm && sent == direct;
  return *explanation.way && !one_volume ? no_formula : sent;
}

Volume formula_of(const Options& options, const communicator& comm, size_t count,
                  tutti_dtype dtype) {
  return formula_of({GroupCall::Kind::allreduce, count, dtype, TUTTI_SUM}, call_config(options),
                    comm);
}

template <class Real>
std::unique_ptr<Wire<Real>> make_wire(const Worker& worker, const std::vector<Bucket>& buckets) {
  const Options& o = worker.options;
  if (o.zero) return std::make_unique<Sharded<Real>>(worker, buckets);
  if constexpr (std::is_same_v<Real, float>) {
    if (o.topk > 0) return std::make_unique<TopK>(o, buckets);
    if (o.wire == "bf16") return std::make_unique<Bf16>(o, buckets.size());
  }
  return std::make_unique<Dense<Real>>(o);
}
template std::unique_ptr<Wire<float>> make_wire(const Worker&, const std::vector<Bucket>&);
template std::unique_ptr<Wire<double>> make_wire(const Worker&, const std::vector<Bucket>&);

}  // namespace tutti::train
