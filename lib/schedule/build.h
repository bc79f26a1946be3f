// Collects what an algorithm emits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/schedule/schedule.h"

namespace tutti::schedule {

// The steps of one rank.
struct Program {
  uint32_t rank = 0;
  uint32_t nranks = 1;
  uint32_t chunks = 1;
  uint32_t scratch_rows = 0;
  std::vector<Step> steps;

  bool operator==(const Program&) const = default;
};

class Builder final : public Sink {
 public:
  Builder(uint32_t rank, uint32_t nranks) {
    program_.rank = rank;
    program_.nranks = nranks;
  }
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

// What `emit` emits for the rank of `shape`.
inline Program build(Emit emit, const Shape& shape) {
  Builder builder(shape.rank, shape.nranks);
  emit(shape, builder);
  return builder.take();
}

// What `emit` emits for every rank, by rank; shape.rank is ignored.
inline std::vector<Program> build_all(Emit emit, Shape shape) {
  std::vector<Program> programs;
  programs.reserve(shape.nranks);
  for (shape.rank = 0; shape.rank < shape.nranks; ++shape.rank) {
    programs.push_back(build(emit, shape));
  }
  return programs;
}

}  // namespace tutti::schedule
