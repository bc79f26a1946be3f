#include "lib/schedule/work.h"

#include <map>
#include <mutex>
#include <tuple>

#include "lib/schedule/count.h"
#include "lib/schedule/goal.h"

namespace tutti::schedule {

namespace {

std::vector<Work> derive_work(const Algorithm& algorithm, Shape shape) {
  const Goal goal(algorithm.collective, shape.nranks, shape.root);
  shape.bracketing = Bracketing::left;
  std::vector<Work> all;
  all.reserve(shape.nranks);
  for (shape.rank = 0; shape.rank < shape.nranks; ++shape.rank) {
    Counter counter(goal.buffers());
    algorithm.emit(shape, counter);
    all.push_back(
        {double(counter.pieces()) / 2, counter.moved().value() / 2, counter.reduced().value()});
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
