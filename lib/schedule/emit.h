// The verbs of algorithms: one per step, so that an algorithm reads as prose.
#pragma once

#include <span>

#include "lib/schedule/schedule.h"

namespace tutti::schedule {

inline Range input(uint32_t begin, uint32_t end) { return {Role::input, begin, end}; }
inline Range output(uint32_t begin, uint32_t end) { return {Role::output, begin, end}; }

class Emitter {
 public:
  Emitter(Sink& sink, uint32_t chunks, uint32_t scratch_rows = 0) : sink_(sink), chunks_(chunks) {
    sink_.begin(chunks, scratch_rows);
  }

  // Chunks [begin, end) of scratch row `row`.
  Range scratch(uint32_t row, uint32_t begin, uint32_t end) const {
    return {Role::scratch, row * chunks_ + begin, row * chunks_ + end};
  }

  // Steps on empty ranges are not emitted: both sides of an empty message leave it out.
  void copy(Range to, Range from) { put({Kind::copy, Side::left, 0, to, from}, from); }
  void send(uint32_t peer, Range from) { put({Kind::send, Side::left, peer, {}, from}, from); }
  void recv(uint32_t peer, Range to) { put({Kind::recv, Side::left, peer, to, {}}, to); }
  // to = (what peer sent) op to when `side` is left, to op (what peer sent) when it is right.
  void recv_reduce(uint32_t peer, Range to, Side side) {
    put({Kind::recv_reduce, side, peer, to, {}}, to);
  }
  // One message of several ranges; both sides list them in the same order.
  void send(uint32_t peer, std::span<const Range> parts) {
    put_parts({Kind::send, Side::left, peer, {}, {}}, parts);
  }
  void recv(uint32_t peer, std::span<const Range> parts) {
    put_parts({Kind::recv, Side::left, peer, {}, {}}, parts);
  }
  void recv_reduce(uint32_t peer, std::span<const Range> parts, Side side) {
    put_parts({Kind::recv_reduce, side, peer, {}, {}}, parts);
  }
  // to = from op to when `side` is left, to op from when it is right.
  void reduce(Range to, Range from, Side side) { put({Kind::reduce, side, 0, to, from}, to); }

 private:
  void put(const Step& step, const Range& range) {
    if (range.size() != 0) sink_.step(step);
  }
  void put_parts(Step step, std::span<const Range> parts) {
    for (const Range& part : parts) {
      if (part.size() == 0) continue;
      (step.kind == Kind::send ? step.from : step.to) = part;
      sink_.step(step);
      step.joined = true;
    }
  }

  Sink& sink_;
  uint32_t chunks_;
};

}  // namespace tutti::schedule
