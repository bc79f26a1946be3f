// What an algorithm emits: the steps of one rank, in program order, on chunks of the vector.
//
// There are no sizes, pointers, types or dependency ids here. A step may run once every earlier
// step of its rank that conflicts with it (overlapping range, one of them writing) is done; sends
// to a peer keep their order and so do receives from a peer; a rank's sends and its receives are
// two independent streams. An output chunk that was not written yet reads as the rank's input, so
// one schedule serves in-place and out-of-place calls; `input` must not be read where `output` was
// already written (in place they are the same memory): the prover rejects it.
#pragma once

#include <cstdint>

namespace tutti::schedule {

enum class Role : uint8_t { input, output, scratch };

// A half-open range of chunks. Chunk c of input and output is chunk c of the vector. Scratch is
// rows of whole vectors: scratch chunk i stands for vector chunk i % chunks in row i / chunks, and
// has its size; a range must not cross the end of a row.
struct Range {
  Role role = Role::output;
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool overlaps(const Range& other) const {
    return role == other.role && begin < other.end && other.begin < end;
  }
  bool operator==(const Range&) const = default;
};

enum class Kind : uint8_t {
  copy,         // to = from
  send,         // from -> peer
  recv,         // to = what peer sent
  recv_reduce,  // to = combination of what peer sent and to
  reduce,       // to = combination of from and to
};

// On which side of the operator the incoming operand (what peer sent, or `from`) stands: operators
// may be non-commutative, and floating point is bitwise commutative only by care.
enum class Side : uint8_t { left, right };

struct Step {
  Kind kind = Kind::copy;
  Side side = Side::left;  // recv_reduce and reduce
  uint32_t peer = 0;       // send, recv and recv_reduce
  Range to;                // all but send
  Range from;              // copy, send and reduce
  // send, recv and recv_reduce: continues the message of the step before it in the same stream,
  // with the same peer. So a message of several ranges counts as one.
  bool joined = false;

  bool operator==(const Step&) const = default;
};

// How a fold of several operands in one place is bracketed: from the left, or by the tree of level
// canonical (lib/schedule/bracketing.h has both).
enum class Bracketing : uint8_t { left, canonical };

// What an algorithm emits steps for. Everything here but `rank` is equal on all ranks.
struct Shape {
  uint32_t rank = 0;
  uint32_t nranks = 1;
  uint32_t root = 0;   // rooted collectives
  uint32_t radix = 2;  // algorithms that have one
  Bracketing bracketing = Bracketing::left;

  bool operator==(const Shape&) const = default;
};

// Where steps go: a builder, the prover, the counter, the drawing. begin() comes first, once.
class Sink {
 public:
  virtual ~Sink() = default;
  // The vector is divided into `chunks` chunks (at least 1); scratch has `scratch_rows` rows of
  // them.
  virtual void begin(uint32_t chunks, uint32_t scratch_rows) = 0;
  virtual void step(const Step& step) = 0;
};

}  // namespace tutti::schedule
