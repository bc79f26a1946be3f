#include "lib/schedule/moves.h"

namespace tutti::schedule {

namespace {

// Looks at the steps of one rank.
class MovesSink final : public Sink {
 public:
  MovesSink(const Goal& goal, uint32_t rank) : goal_(goal), rank_(rank) {}

  void begin(uint32_t, uint32_t scratch_rows) override { moves_ = scratch_rows == 0; }
  void step(const Step& step) override {
    const bool sends = step.kind == Kind::send;
    const Range& range = sends ? step.from : step.to;
    moves_ = moves_ && (sends || step.kind == Kind::recv) && range.role != Role::scratch;
    for (uint32_t c = range.begin; c < range.end && moves_; ++c) {
      moves_ = goal_.gets(rank_, c) || (sends && goal_.has(rank_, c));
    }
  }
  bool moves() const { return moves_; }

 private:
  const Goal& goal_;
  uint32_t rank_;
  bool moves_ = false;
};

}  // namespace

bool copy_only(const Algorithm& algorithm, Shape shape) {
  const Goal goal(algorithm.collective, shape.nranks, shape.root);
  if (reduces(algorithm.collective)) return false;
  for (shape.rank = 0; shape.rank < shape.nranks; ++shape.rank) {
    MovesSink sink(goal, shape.rank);
    algorithm.emit(shape, sink);
    if (!sink.moves()) return false;
  }
  return true;
}

}  // namespace tutti::schedule
