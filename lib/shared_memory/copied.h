// Allreduce of vectors in the ranks' private memory, from where the kernel copies (single_copy.h):
// each rank copies its share of all other inputs, a piece at a time, into a buffer that stays in
// its caches, and reduces it in rank order into its output; then it copies the other shares from
// their owners' outputs. No slice is staged: of a rank's traffic between cores, that is the
// minimum, 2 (p-1)/p vectors. Implements two-shot, bit for bit.
//
// In place, a rank overwrites the part of its vector that another one owns. It does so after that
// owner has posted its share as reduced, and has read all that it needs.
//
// A rank leaves only when all are done, so nobody's vectors are read after its call. A rank whose
// call ends in an error withdraws what it posted; what others have copied from it since is not
// used: each looks again after every copy.
#pragma once

#include <vector>

#include "lib/shared_memory/rendezvous.h"
#include "lib/shared_memory/single_copy.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

class Copied {
 public:
  // All outlive this.
  Copied(FlagLines& flags, const Rendezvous& rendezvous, SingleCopy& single_copy,
         const Tuning& tuning)
      : flags_(flags),
        rendezvous_(rendezvous),
        single_copy_(single_copy),
        tuning_(tuning),
        places_(flags.nranks()),
        gathered_(flags.nranks()),
        operands_(flags.nranks()) {}

  // Allocates what calls need, unless it is there; false: there is no memory for it.
  bool reserve();
  // Whether this rank may and can copy from all others in that call, as far as it is known; never
  // blocks.
  bool is_possible(const AllreduceCall& call);
  // To be called once all have met. `turn`: number of the call.
  void begin(const AllreduceCall& call, uint32_t turn);
  // Whether anything moved.
  bool advance();
  bool done() const { return done_; }
  const Status& failure() const { return failure_; }
  // The lowest peer whose flag is missing, -1 if none.
  int waits_for() const;

 private:
  Range share_of(uint32_t rank) const;
  // Of each other rank's input, that is copied at once.
  size_t piece_bytes() const;
  bool reduce_piece();
  bool gather_piece();
  // Copies from `address` in `rank`; false: it has withdrawn, or the copy has failed.
  bool copy(uint32_t rank, uint64_t address, std::byte* to, size_t bytes);
  bool reduced(uint32_t rank) const {
    return flags_.posted(rank, line::reduced, turn_, call_.digest);
  }

  FlagLines& flags_;
  const Rendezvous& rendezvous_;
  SingleCopy& single_copy_;
  const Tuning& tuning_;
  AllreduceCall call_;
  uint32_t turn_ = 0;
  bool done_ = true, stopped_ = false;  // stopped: a peer has withdrawn; the link knows why
  bool posted_reduced_ = false, posted_finish_ = false;
  Range left_;  // of the own share
  std::vector<Rendezvous::Places> places_;
  std::vector<uint64_t> gathered_;  // bytes of each share
  std::vector<const void*> operands_;
  std::vector<std::byte> landed_;  // a piece of each other rank's input
  Status failure_;
};

}  // namespace tutti::shared
