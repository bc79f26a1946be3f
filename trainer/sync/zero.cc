// ZeRO stage 1 (Rajbhandari et al. 2020): every worker keeps the optimizer's state of its part of
// each bucket only. Gradients are reduce-scattered, every worker updates its parts, parameters are
// all-gathered: the bytes of an allreduce, and bitwise its result where both sum in the same order.
#include "trainer/sync/zero.h"

#include "trainer/common/call.h"
#include "trainer/common/faults.h"
#include "trainer/parallel/norms.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/clip.h"
#include "trainer/sync/meter.h"
#include "trainer/sync/passes.h"
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

// `Real`: the element type of the parameters.
template <class Real>
class ZeroOne : public Strategy {
 public:
  explicit ZeroOne(const Worker& worker)
      : worker_(worker),
        passes_(worker),
        optimizer_(optimizer_settings(worker.options), worker.replica.layout(), owned(),
                   worker.replica.device()),
        calls_(worker.comm, worker.options.overlap, worker.replica.device()),
        meter_(calls_.comm()) {
    for (size_t b = 0; b < passes_.buckets().size(); ++b)
      mine_.emplace_back(worker.replica.device(), part(b).size());
  }

  StepFigures step(int64_t step) override {
    const size_t count = passes_.buckets().size();
    const auto start = [this](size_t b) {
      calls_.start([this, b](const Way& way) { return reduce(way, b); });
    };
    const typename Passes<Real>::Result local = passes_.run(step, start, [this] { calls_.look(); });
    StepFigures figures;
    double squares = 0;
    optimizer_.begin(step);
    if (worker_.options.clip) {
      for (size_t b = 0; b < count; ++b) take(b, figures, squares);
      clip(figures);
    }
    for (size_t b = 0; b < count; ++b) {
      if (!worker_.options.clip) take(b, figures, squares);
      if (b == 0) fault_point("update");
      if (!figures.overflow) optimizer_.update(part(b), parameters(part(b)), mine_[b].span());
    }
    if (optimizer_.has_norms()) sum_norms();
    for (size_t b = 0; b < count; ++b) {
      if (!figures.overflow) optimizer_.finish(part(b), parameters(part(b)));
      calls_.start([this, b](const Way& way) { return gather(way, b); });
    }
    const double from = now();
    calls_.wait(2 * count - 1);
    double sums[] = {local.loss, local.shard_norm, squares};
    worker_.comm.allreduce<double>(sums);
    passes_.sum_model(sums[0], sums[1], sums[2]);
    figures.exposed += now() - from + passes_.exposed();
    record(figures);
    figures.loss = sums[0] / passes_.terms();
    figures.shard_norm = sums[1] / double(worker_.options.shards);
    figures.step_norm = sums[2];
    return figures;
  }

  std::vector<StateVector> state() override {
    std::vector<StateVector> all{parameter_state(worker_.replica.bytes(), worker_.replica.size(),
                                                 StateVector::Kept::alike,
                                                 worker_.replica.device())};
    add_state(optimizer_, StateVector::Kept::part, all);
    return all;
  }

  Volume formula() const override {
    Volume sum;
    for (const Bucket& bucket : passes_.buckets()) {
      const Volume half = scatter_volume(worker_.comm.size(), sizeof(Real) * double(bucket.count));
      (sum += half) += half;
    }
    // lamb's norms of layers, of which each worker has a part.
    if (optimizer_.has_norms()) {
      const size_t norms = 2 * worker_.replica.layout().size();
      sum += formula_of({GroupCall::Kind::allreduce, norms, TUTTI_BINNED_FLOAT64, TUTTI_SUM},
                        TUTTI_CALL_CONFIG_INIT, worker_.comm);
    }
    return sum;
  }
  std::string about() const override {
    return "a reduce_scatter of gradients and an allgather of parameters for each bucket";
  }

 private:
  // Waits for the sum of this rank's part of the bucket.
  void take(size_t b, StepFigures& figures, double& squares) {
    const double from = now();
    calls_.wait(b);
    figures.exposed += now() - from;
    for_counted(worker_.replica.layout(), part(b), [&](Range own) {
      squares = with_squares<Real>(worker_.replica.device(),
                                   mine_[b].span().subspan(own.begin - part(b).begin, own.size()),
                                   squares);
    });
  }
  void clip(StepFigures& figures) {
    const Device& device = worker_.replica.device();
    GradientNorm norm(device);
    for (size_t b = 0; b < mine_.size(); ++b)
      norm.add<Real>(worker_.replica.layout(), part(b), mine_[b].span());
    const double squared = norm.squared(worker_.grid.all);
    for (Buffer<Real>& own : mine_)
      shorten<Real>(device, own.span(), squared, *worker_.options.clip, figures);
  }
  Range part(size_t b, int rank) const {
    return share_of(passes_.buckets()[b], worker_.comm.size(), rank);
  }
  Range part(size_t b) const { return part(b, worker_.comm.rank()); }
  std::vector<Range> owned() const {
    std::vector<Range> ranges;
    ranges.reserve(passes_.buckets().size());
    for (size_t b = 0; b < passes_.buckets().size(); ++b) ranges.push_back(part(b));
    return ranges;
  }
  std::vector<size_t> counts(size_t b) const {
    std::vector<size_t> lengths;
    lengths.reserve(size_t(worker_.comm.size()));
    for (int r = 0; r < worker_.comm.size(); ++r) lengths.push_back(part(b, r).size());
    return lengths;
  }
  std::span<Real> parameters(Range range) {
    return worker_.replica.parameters<Real>().subspan(range.begin, range.size());
  }

  request reduce(const Way& way, size_t b) {
    fault_point("allreduce");
    return way.reduce_scatter(passes_.gradient(passes_.buckets()[b]).data(), mine_[b].data(),
                              counts(b), dtype_of<Real>, call_config(worker_.options));
  }
  request gather(const Way& way, size_t b) {
    return way.allgather(passes_.parameters(passes_.buckets()[b]).data(), counts(b),
                         dtype_of<Real>);
  }
  // Layers are divided, so their norms are sums over the ranks.
  void sum_norms() {
    const auto norms = optimizer_.norms();
    check(tutti_allreduce(TUTTI_IN_PLACE, norms.data(), norms.size(), TUTTI_BINNED_FLOAT64,
                          TUTTI_SUM, calls_.comm().get()),
          calls_.comm());
    if (worker_.grid.tensor.size() > 1)
      sum_layer_norms(optimizer_, worker_.replica.layout(), worker_.grid.tensor);
  }
  void record(StepFigures& figures) {
    const size_t count = passes_.buckets().size();
    for (size_t job = 0; job < 2 * count; ++job) {
      const Calls::Times times = calls_.times(job);
      const double bytes = sizeof(Real) * double(passes_.buckets()[job % count].count);
      figures.communication += times.end - times.begin;
      worker_.timeline.add(
          "communication",
          (job < count ? "reduce bucket " : "gather bucket ") + std::to_string(job % count),
          times.begin, times.end, bytes);
    }
    calls_.clear();
    figures.volume = meter_.sent();
  }

  Worker worker_;
  Passes<Real> passes_;
  BasicOptimizer<Real> optimizer_;
  std::vector<Buffer<Real>> mine_;  // of each bucket, this rank's part of the summed gradient
  Calls calls_;                     // after what its calls use
  Meter meter_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero(const Worker& worker) {
  if (worker.options.dtype == "float64") return std::make_unique<ZeroOne<double>>(worker);
  return std::make_unique<ZeroOne<float>>(worker);
}

}  // namespace tutti::train
