// Numbers the chunks that a program uses, without gaps: as cells. In place, input and output are
// the same memory, so they share cells; of a scratch row only the used part gets cells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/schedule/build.h"

namespace tutti::schedule {

// The vector chunk that a range begins with.
inline uint32_t column(const Range& range, uint32_t chunks) {
  return range.role == Role::scratch ? range.begin % chunks : range.begin;
}
constexpr bool has_to(Kind kind) { return kind != Kind::send; }
constexpr bool has_from(Kind kind) { return kind != Kind::recv && kind != Kind::recv_reduce; }
constexpr bool reads_to(Kind kind) { return kind == Kind::recv_reduce || kind == Kind::reduce; }
constexpr bool receives(Kind kind) { return kind == Kind::recv || kind == Kind::recv_reduce; }

class Layout {
 public:
  // The used part of a scratch row, in chunks of the vector.
  struct Row {
    uint32_t begin = 0, end = 0;
    uint32_t first = 0;  // cell of `begin`
  };

  // The ranges must be within bounds and rows.
  explicit Layout(const Program& program) : Layout(program.chunks, program.scratch_rows) {
    for (const Step& step : program.steps) {
      if (has_to(step.kind)) use(step.to);
      if (has_from(step.kind)) use(step.from);
    }
    place();
  }
  // For a program in another form: use() every range, then place().
  Layout(uint32_t chunks, uint32_t scratch_rows)
      : chunks_(chunks), rows_(scratch_rows), cells_(chunks) {}

  void use(const Range& range) {
    if (range.role != Role::scratch || range.size() == 0) return;
    Row& row = rows_[range.begin / chunks_];
    const uint32_t begin = range.begin % chunks_, end = begin + range.size();
    if (row.begin == row.end) row = {begin, end};
    row.begin = std::min(row.begin, begin);
    row.end = std::max(row.end, end);
  }
  void place() {
    for (Row& row : rows_) {
      row.first = cells_;
      cells_ += row.end - row.begin;
    }
  }

  uint32_t cells() const { return cells_; }
  const std::vector<Row>& rows() const { return rows_; }
  // The cell of the first chunk of a range; the others follow.
  uint32_t first(const Range& range) const {
    if (range.role != Role::scratch) return range.begin;
    const Row& row = rows_[range.begin / chunks_];
    return row.first + range.begin % chunks_ - row.begin;
  }

 private:
  uint32_t chunks_;
  std::vector<Row> rows_;
  uint32_t cells_;
};

}  // namespace tutti::schedule
