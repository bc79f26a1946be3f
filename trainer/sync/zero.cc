// ZeRO stage 1 (Rajbhandari et al. 2020): every worker keeps the optimizer's state of its part of
// each bucket only. Gradients are reduce-scattered, every worker updates its parts, parameters are
// all-gathered: the bytes of an allreduce, and bitwise its result where both sum in the same order.
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

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
  request begin(const Way& way, size_t bucket, std::span<Real> gradient) override {
    return way.reduce_scatter(gradient.data(), sums_[bucket].data(), counts_[bucket],
                              dtype_of<Real>, call_config(options_));
  }
  std::span<Real> sum(const Device&, size_t bucket, std::span<Real>) override {
    return sums_[bucket].span();
  }
  bool sharded() const override { return true; }
  Range part(const Bucket& bucket) const override { return share_of(bucket, ranks_, rank_); }
  request gather(const Way& way, size_t bucket, std::span<Real> parameters) override {
    return way.allgather(parameters.data(), counts_[bucket], dtype_of<Real>);
  }
  Volume formula(const communicator& comm, size_t count) const override {
    const Volume half = scatter_volume(comm.size(), sizeof(Real) * double(count));
    return {2 * half.bytes, 2 * half.messages};
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

template <class Real>
std::unique_ptr<Wire<Real>> make_sharded(const Worker& worker, const std::vector<Bucket>& buckets) {
  return std::make_unique<Sharded<Real>>(worker, buckets);
}
template std::unique_ptr<Wire<float>> make_sharded(const Worker&, const std::vector<Bucket>&);
template std::unique_ptr<Wire<double>> make_sharded(const Worker&, const std::vector<Bucket>&);

}  // namespace tutti::train
