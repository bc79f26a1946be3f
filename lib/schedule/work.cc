#include "lib/schedule/work.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "lib/schedule/count.h"
#include "lib/schedule/goal.h"
#include "lib/schedule/prove.h"

namespace tutti::schedule {

namespace {

// The prover runs all ranks, which takes long where they are many; then this is a lower bound.
constexpr uint32_t most_ranks_of_span = 64;

Work span_of(const Algorithm& algorithm, Shape shape) {
  shape.nranks = std::min(shape.nranks, most_ranks_of_span);
  shape.rank = shape.root %= shape.nranks;
  Trace trace;
  prove(algorithm, shape, &trace);
  struct Largest {
    size_t moved = 0, reduced = 0;  // chunks; what is combined on arrival is in both
  };
  std::map<uint32_t, Largest> rounds;
  for (const Trace::Transfer& transfer : trace.transfers) {
    Largest& largest = rounds[transfer.round];
    largest.moved = std::max(largest.moved, transfer.chunks.size());
    if (transfer.reduces) largest.reduced = std::max(largest.reduced, transfer.chunks.size());
  }
  Counter counter(Goal(algorithm.collective, shape.nranks, shape.root).buffers());
  algorithm.emit(shape, counter);  // for the length of a chunk
  Work span;
  for (const auto& [round, largest] : rounds) {
    span.moved += counter.in_buffers(largest.moved).value() / 2;
    span.reduced += counter.in_buffers(largest.reduced).value();
  }
  return span;
}

WorkOfAll derive_work(const Algorithm& algorithm, Shape shape) {
  const Goal goal(algorithm.collective, shape.nranks, shape.root);
  shape.bracketing = Bracketing::left;
  WorkOfAll all;
  const auto add = [&](double Work::*what, double of_rank) {
    all.mean.*what += of_rank / shape.nranks;
    all.busiest.*what = std::max(all.busiest.*what, of_rank);
  };
  for (shape.rank = 0; shape.rank < shape.nranks; ++shape.rank) {
    Counter counter(goal.buffers());
    algorithm.emit(shape, counter);
    add(&Work::pieces, double(counter.pieces()) / 2);
    add(&Work::moved, counter.moved().value() / 2);
    add(&Work::reduced, counter.reduced().value());
  }
  all.span = span_of(algorithm, shape);
  return all;
}

}  // namespace

const WorkOfAll& work_of(const Algorithm& algorithm, const Shape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<const Algorithm*, uint32_t, uint32_t, uint32_t>, WorkOfAll> known;
  const std::tuple key(&algorithm, shape.nranks, shape.root, shape.radix);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = derive_work(algorithm, shape);
}

}  // namespace tutti::schedule
