// Allreduce over memory that every rank reaches, in one pass: ranks tell each other where their
// vectors lie; each reduces its share of all inputs, in rank order, and writes it to all outputs;
// all tell that they are done. Nothing is staged: the traffic is one vector read and one written a
// rank, the least there is ("direct access", reference section 5.29(b)). Implements two-shot, bit
// for bit.
//
// A rank leaves only when all are done, so nobody's vectors are touched after its call. When a call
// ends in an error, withdraw() takes back what was said. Processes keep each other's memory mapped,
// so a slow peer may still write there; threads do not, so the one that fails waits for those that
// have begun: they never wait for anybody between begin() and their own share's end.
#pragma once

#include <vector>

#include "lib/plan/board.h"
#include "lib/reduce/reduce.h"
#include "transports/shm/regions.h"

namespace tutti::plan {

// An allreduce as a fused path sees it.
struct FusedCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t count = 0;  // at least 1
  uint32_t element_size = 1;
  Kernels kernels;
  uint32_t digest = 0;

  size_t bytes() const { return count * element_size; }
};

// Whether the vectors of `nranks` ranks are more than the host's last-level cache holds: then
// results are better written past it. Measured on two ranks: 16 MiB in 0.7 of the time, 4 MiB
// in 1.4.
bool exceeds_cache(size_t vector_bytes, uint32_t nranks);

class Direct {
 public:
  Direct(Board& board, const shm::Regions& regions);

  // Posts where this rank's vectors lie; false, and nothing is posted, when the others cannot reach
  // them. `turn`: number of the call.
  bool announce(const FusedCall& call, uint32_t turn);
  bool announced(uint32_t rank) const;

  // To be called once all have announced. A rank may only be wrong about its own memory: then the
  // error names it.
  Status begin();
  // The call has failed: nobody touches this rank's vectors any more once this returns (threads),
  // or nobody begins to (processes).
  void withdraw();
  // After begin(). Whether anything was done.
  bool advance();
  bool done() const { return finished_peers_ == board_.nranks(); }
  bool finished(uint32_t rank) const;

 private:
  void reduce_slice();
  void reduce_piece(uint64_t at, size_t bytes);
  void reduce_pair(uint64_t at, size_t bytes);

  Board& board_;
  const shm::Regions& regions_;
  FusedCall call_;
  uint32_t turn_ = 0;
  uint64_t at_ = 0, end_ = 0;             // what is left of the own share, in bytes of the vector
  bool streams_ = false;                  // stores go past the caches
  bool shared_ = false;                   // the own share is done, and said to be
  uint32_t finished_peers_ = 0;           // peers 0.. known to be done
  std::vector<const std::byte*> inputs_;  // by rank, in this process
  std::vector<std::byte*> outputs_;
  std::vector<const void*> operands_;
};

}  // namespace tutti::plan
