// Allreduce of a short vector in one hop: every rank publishes its vector once, reads all others'
// and reduces them in rank order. Implements all-to-all, bit for bit. staging.h says why no
// acknowledgements are needed.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

class OneShot {
 public:
  explicit OneShot(Staging& staging)
      : staging_(staging),
        flags_(staging.flags()),
        cells_(staging.cells()),
        nranks_(staging.nranks()),
        self_(staging.self()),
        operands_(staging.nranks()) {}

  // As a protocol by itself; OrDirect calls enter() and stage() instead.
  void start(const AllreduceCall& call) {
    staging_.begin_call();
    enter(call);
    stage();
  }
  // `call` is the next one; stage() publishes its vector.
  void enter(const AllreduceCall& call) {
    call_ = call;
    sequence_ = staging_.next_resident();
    ready_peers_ = 0;
    done_ = false;
  }
  void stage();
  bool staged_at(uint32_t rank) const {
    return flags_.posted(rank, line(sequence_), sequence_, call_.digest);
  }
  bool advance();
  bool done() const { return done_; }
  const Status& failure() const { return failure_; }
  void withdraw() {}
  int waits_for() const;
  int needs() const { return waits_for(); }
  Transfers transfers() const;

 private:
  static uint32_t line(uint32_t sequence) { return line::one_shot + 2 * (sequence & 1); }
  bool is_resident() const { return call_.bytes() <= staging_.tuning().resident_bytes; }
  void prefetch_next() const;

  Staging& staging_;
  FlagLines& flags_;
  std::byte* const* const cells_;
  const uint32_t nranks_, self_;
  AllreduceCall call_;
  bool done_ = true;
  uint32_t sequence_ = 0;
  bool in_line_ = false;      // the vectors lie in the lines of their flags
  size_t place_ = 0;          // else their offset into the cells
  uint32_t ready_peers_ = 0;  // peers 0.. known to have published
  std::vector<const void*> operands_;
  uint64_t calls_ = 0, bytes_ = 0;  // completed calls, and the bytes of their vectors
  const Status failure_;            // always OK: one-shot itself cannot fail
};

}  // namespace tutti::shared
