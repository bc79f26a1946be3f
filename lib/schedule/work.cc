#include "lib/schedule/work.h"

#include <map>
#include <mutex>
#include <tuple>

#include "lib/schedule/goal.h"

namespace tutti::schedule {

namespace {

constexpr uint32_t most_ranks = 64;  // whose steps are looked at

class WorkSink final : public Sink {
 public:
  explicit WorkSink(uint32_t buffers) : buffers_(buffers) {}

  void begin(uint32_t chunks, uint32_t) override { of_chunk_ = double(buffers_) / chunks; }
  void step(const Step& step) override {
    const bool sends = step.kind == Kind::send;
    const double buffers = of_chunk_ * (sends ? step.from : step.to).size();
    const bool on_receipt = step.kind == Kind::recv_reduce, combines = step.kind == Kind::reduce;
    if (step.kind != Kind::copy && !combines) work_.pieces += 0.5;
    if (on_receipt) work_.received += buffers;
    (on_receipt || combines ? work_.reduced : work_.copied) += buffers;
  }
  const Work& work() const { return work_; }

 private:
  uint32_t buffers_;
  double of_chunk_ = 0;
  Work work_;
};

std::vector<Work> derive_work(const Algorithm& algorithm, Shape shape) {
  const Goal goal(algorithm.collective, shape.nranks, shape.root);
  const uint32_t apart = (shape.nranks + most_ranks - 1) / most_ranks;
  std::vector<Work> all;
  for (uint32_t i = 0; i < shape.nranks; i += apart) {
    shape.rank = (shape.root + i) % shape.nranks;
    WorkSink sink(goal.buffers());
    algorithm.emit(shape, sink);
    all.push_back(sink.work());
  }
  return all;
}

}  // namespace

const std::vector<Work>& work_of(const Algorithm& algorithm, const Shape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<const Algorithm*, uint32_t, uint32_t, uint32_t>, std::vector<Work>>
      known;
  const std::tuple key(&algorithm, shape.nranks, shape.root, shape.radix);
  const std::lock_guard lock(mutex);
  std::vector<Work>& work = known[key];
  if (work.empty()) work = derive_work(algorithm, shape);
  return work;
}

}  // namespace tutti::schedule
