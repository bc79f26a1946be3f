// Allreduce of a long vector in one hop: every rank publishes its vector in slices, in the ring of
// one_hop.h, and reduces all ranks' slices in rank order. Implements all-to-all, bit for bit.
#pragma once

#include "lib/base/transfers.h"
#include "lib/shared_memory/one_hop.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

class SlicedOneShot {
 public:
  // `one_hop` outlives this.
  explicit SlicedOneShot(OneHop& one_hop) : one_hop_(&one_hop) {}

  // `call`, which has a shape, is the next one; stage() makes ready what advance() publishes.
  void enter(const AllreduceCall& call) { call_ = call; }
  void stage() {
    one_hop_->start({.shape = call_.shape,
                     .kernels = call_.kernels,
                     .input = call_.input,
                     .digest = call_.digest,
                     .output = call_.output,
                     .stores = call_.stores,
                     .narrow = call_.narrow});
  }
  // Before stage().
  bool staged_at(uint32_t rank) const { return one_hop_->has_begun_next(rank, call_.digest); }
  bool advance() { return one_hop_->advance(); }
  bool done() const { return one_hop_->done(); }
  int waits_for() { return one_hop_->waits_for(); }
  Transfers transfers() const { return {}; }  // one-hop counts them

 private:
  OneHop* one_hop_;
  AllreduceCall call_;
};

}  // namespace tutti::shared
