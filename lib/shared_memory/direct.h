// Allreduce over memory that every rank reaches, in one pass: ranks tell each other where their
// vectors lie; each reduces its share of all inputs, in rank order, and writes it to all outputs;
// all tell that they are done. Nothing is staged: the traffic is one vector read and one written a
// rank, the least there is ("direct access", reference section 5.29(b)). Implements two-shot, bit
// for bit.
//
// A rank leaves only when all are done, so nobody's vectors are touched after its call. When a call
// ends in an error, withdraw() takes back what was said. From then on its vectors may change, so
// who has read them says "done" only after a look that none was taken back: else nobody's call ends
// well. Processes keep each other's memory mapped, so a slow peer may still write there; threads do
// not, so the one that fails waits for those that are in a slice, which no rank is for long.
#pragma once

#include <vector>

#include "lib/shared_memory/regions.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

class Direct {
 public:
  Direct(FlagLines& flags, const Regions& regions);

  // Posts where this rank's vectors lie; false, and nothing is posted, when the others cannot reach
  // them. `turn`: number of the call.
  bool announce(const AllreduceCall& call, uint32_t turn);
  bool announced(uint32_t rank) const;

  // To be called once all have announced. A rank may only be wrong about its own memory: then the
  // error names it.
  Status begin();
  // The call has failed: nobody touches this rank's vectors any more once this returns (threads),
  // or nobody begins to (processes).
  void withdraw();
  // After begin(). Whether anything was done.
  bool advance();
  bool done() const { return finished_peers_ == flags_.nranks(); }
  bool finished(uint32_t rank) const;

 private:
  bool all_announced() const;
  // Against withdraw(), before vectors of threads are touched: either it sees that we have begun,
  // or we see that it has gone; then false.
  bool enter_slice();
  void reduce_slice();
  void reduce_piece(uint64_t at, size_t bytes);
  void reduce_pair(uint64_t at, size_t bytes);

  FlagLines& flags_;
  const Regions& regions_;
  AllreduceCall call_;
  uint32_t turn_ = 0;
  uint64_t at_ = 0, end_ = 0;             // what is left of the own share, in bytes of the vector
  bool streams_ = false;                  // with non-temporal stores
  bool shared_ = false;                   // the own share is done, and said to be
  bool withdrawn_ = false;                // a peer has gone: the link knows why
  uint32_t finished_peers_ = 0;           // peers 0.. known to be done
  std::vector<const std::byte*> inputs_;  // by rank, in this process
  std::vector<std::byte*> outputs_;
  std::vector<const void*> operands_;
};

}  // namespace tutti::shared
