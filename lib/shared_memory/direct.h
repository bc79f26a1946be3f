// Allreduce over memory that every rank reaches, in one pass: ranks post where their vectors lie
// (rendezvous.h); each reduces its share of all inputs, in rank order, and writes it to all
// outputs (two-shot); all post that they are done. Nothing is staged: the traffic per rank is one
// vector read and one written, the minimum ("direct access", reference section 5.29(b)). Implements
// two-shot, bit for bit.
//
// In one shot each rank reduces all of the inputs into its own output, beginning with its share,
// and nobody writes to another rank's memory: more is read, but writing to lines that another core
// has read is slow (notes.md). The bits are the same. Only where all ranks have posted that they
// allow it; none does whose output overwrites its input, which the others still read.
//
// Memory of the program whose whole pages are shared (adopted.h) has edges that the others do not
// reach. On a communicator that has such memory every rank copies as much of the beginning and of
// the end of its input as the longest edges are to where all read it, and reduces these elements
// for itself. The copies of a call are read before anybody is done, so the next one may overwrite
// them.
//
// A rank leaves only when all are done, so nobody's vectors are touched after its call. When a call
// ends in an error, withdraw() clears what the rank has posted. From then on its vectors may
// change: so a rank posts "done" only after checking that no peer has withdrawn, and otherwise the
// call succeeds on no rank. Processes keep each other's memory mapped, so a slow peer may still
// write to the vectors of a rank that has withdrawn. Threads do not: there a rank that fails waits
// for peers that are inside a slice, which takes bounded time.
#pragma once

#include <vector>

#include "lib/shared_memory/rendezvous.h"
#include "lib/shared_memory/staging.h"
#include "lib/shared_memory/vector_access.h"

namespace tutti::shared {

class Direct {
 public:
  // All outlive this.
  Direct(FlagLines& flags, const Regions& regions, Rendezvous& rendezvous, const Tuning& tuning);

  // Whether the others reach the call's vectors, and where they lie; to be called before that is
  // posted. `turn`: number of the call.
  bool prepare(const AllreduceCall& call, uint32_t turn, Place* input, Place* output);
  // To be called once all have met. The error names a rank that has posted memory which is not
  // mapped here.
  Status begin();
  // The call has failed. Threads: once this returns, no peer touches this rank's vectors any more.
  // Processes: no peer begins to.
  void withdraw();
  // To be called after begin(). Whether anything moved.
  bool advance();
  bool done() const { return finished_peers_ == flags_.nranks(); }
  // The lowest peer whose flag is missing, -1 if none.
  int waits_for() const;

 private:
  bool finished(uint32_t rank) const {
    return flags_.posted(rank, line::finish, turn_, call_.digest);
  }
  // The call has ended: regions that the program has removed here meanwhile may be unmapped.
  void let_go();
  void reduce_edges();
  void reduce_edge(size_t at, size_t bytes, std::byte* (Regions::*copy)(uint32_t) const);
  bool writes_to(uint32_t rank) const { return !one_shot_ || rank == flags_.self(); }
  void reduce_slice();
  void reduce_piece(uint64_t at, size_t bytes);
  void reduce_pair(uint64_t at, size_t bytes);

  FlagLines& flags_;
  const Regions& regions_;
  VectorAccess access_;
  Rendezvous& rendezvous_;
  const Tuning& tuning_;
  AllreduceCall call_;
  uint32_t turn_ = 0;
  Edges edges_;  // whole elements
  bool one_shot_ = false;
  Range left_, then_;                     // what is left to reduce: first the one, then the other
  bool streams_ = false;                  // with non-temporal stores
  bool shared_ = false;                   // the own part is done, and posted as done
  bool withdrawn_ = false;                // a peer has withdrawn: the link knows why
  uint32_t finished_peers_ = 0;           // peers 0.. known to be done
  std::vector<const std::byte*> inputs_;  // by rank, in this process
  std::vector<std::byte*> outputs_;
  std::vector<std::shared_ptr<void>> owners_;  // of the mappings that both lie in, by rank
  std::vector<const void*> operands_;
};

}  // namespace tutti::shared
