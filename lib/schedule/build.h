// Collects what an algorithm emits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/schedule/schedule.h"

namespace tutti::schedule {

// The steps of one rank.
struct Program {
  uint32_t chunks = 1;
  uint32_t scratch_rows = 0;
  std::vector<Step> steps;

  bool operator==(const Program&) const = default;
};

// The programs of all ranks, by rank.
struct Schedule {
  std::vector<Program> ranks;

  uint32_t nranks() const { return uint32_t(ranks.size()); }
  bool operator==(const Schedule&) const = default;
};

class Builder final : public Sink {
 public:
  void begin(uint32_t chunks, uint32_t scratch_rows) override {
    program_.chunks = chunks;
    program_.scratch_rows = scratch_rows;
  }
  void step(const Step& step) override { program_.steps.push_back(step); }

  Program take() { return std::move(program_); }

 private:
  Program program_;
};

using Emit = void (*)(const Shape& shape, Sink& sink);

// What `emit` says for every rank of `shape`.
inline Schedule build(Emit emit, Shape shape) {
  Schedule schedule;
  schedule.ranks.reserve(shape.nranks);
  for (shape.rank = 0; shape.rank < shape.nranks; ++shape.rank) {
    Builder builder;
    emit(shape, builder);
    schedule.ranks.push_back(builder.take());
  }
  return schedule;
}

}  // namespace tutti::schedule
