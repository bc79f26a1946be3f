// Everything about a call that is the same for all calls like it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "lib/call/call.h"
#include "lib/plan/blocks.h"
#include "lib/plan/lower.h"
#include "lib/plan/run.h"
#include "lib/reduce/reduce.h"
#include "lib/select/select.h"
#include "lib/select/trial.h"
#include "lib/shared_memory/one_hop_shape.h"
#include "lib/shared_memory/slice_writer.h"

namespace tutti {

// A lowered schedule and its last binding; one per algorithm, root, chunks and bracketing.
struct CachedPlan {
  const Algorithm* algorithm;
  int root;
  plan::Chunks chunks;
  schedule::Bracketing bracketing;
  plan::Plan plan;
  plan::Binding binding;
  CallKey bound_to;  // of collectives of equal blocks: what the binding is for

  CachedPlan(const Algorithm* algorithm, int root, plan::Chunks chunks,
             schedule::Bracketing bracketing, plan::Plan lowered)
      : algorithm(algorithm),
        root(root),
        chunks(chunks),
        bracketing(bracketing),
        plan(std::move(lowered)),
        binding(plan) {}
};

// How a call moves what it moves; nothing of its result depends on it.
struct Manner {
  shared::SliceStores stores = shared::SliceStores::library;
  bool single_copy = false;  // ranks copy from each other's vectors where they can
  bool narrow = false;       // slices use a part of the ring (one_hop.h)
  bool whole = false;        // short parts of one-hop are not cut into slices; alike on all ranks
  bool staged = false;       // also what others have mapped (or_direct.h, one_hop.h)
  bool own_first = false;    // results of two-shot are written here first, then copied to others
  bool one_shot = false;     // an allreduce that goes direct does so in one shot (direct.h)
  bool past = false;         // results of one-hop are written past the caches
};

// One of the ways of a call that give the same bits.
struct Way {
  Route route;
  Manner manner;
  CachedPlan* plan = nullptr;  // where it goes by its schedule
};

struct CallPlan {
  CallKey key;    // of the call that it was last made ready for
  Counts counts;  // that it can be made ready for
  Choice choice;
  CallSignature signature;
  uint64_t hash_without_count = 0;  // of the signature
  uint64_t signature_hash = 0;
  Kernels kernels;
  UserFunction function;  // what kernels.user points to
  bool premultiplies = false;
  alignas(16) std::array<std::byte, 16> scalar{};  // of a pre-multiplied sum
  uint32_t element_size = 1;
  CachedPlan* plan = nullptr;                  // the communicator's, where it goes by its schedule
  std::optional<shared::OneHopShape> one_hop;  // where it goes by one hop, or by slices in its ring
  Manner manner;
  // Where there are several ways with the same bits: what they are, and which it goes. All
  // CallPlans of a class of calls share the trial.
  std::vector<Way> ways;
  uint32_t way = 0;
  std::shared_ptr<Trial> trial;
  // How all ranks learn what each has measured: in flag lines, tagged, or, if this is set, by an
  // allgather in a call that goes the way `telling`, by its schedule.
  CachedPlan* verdicts = nullptr;
  uint32_t telling = 0;
  uint16_t trial_tag = 0;
  bool reserves = false;  // one of its ways goes by a schedule that no call has gone by yet
  // A small one ends within a few calls of advance() if the peers have entered it already.
  bool ends_soon = false;
  bool finishes = false;         // something is left to do when its protocol is done
  bool always_finishes = false;  // also where its trial has nothing to do
  bool empty = false;  // no elements; never set for a v form whose lengths not all ranks know
  bool ends_unheard = false;  // a rank can end it without having heard from all others

  // Whether it can be made ready for such calls.
  bool serves(const CallKey& other) const {
    return other.count - counts.least <= counts.most - counts.least && key.alike(other);
  }
  // Makes it ready for a call of that size, one of `counts`.
  void set_size(uint64_t count, uint64_t lengths) {
    key.count = signature.count = count;
    if (hash_without_count == 0 || lengths != key.lengths) {
      key.lengths = lengths;
      if (lengths != 0 && !is_rooted(key.collective)) signature.root = int32_t(lengths);
      hash_without_count = tutti::hash_without_count(signature);
    }
    signature_hash = hash_with(hash_without_count, count);
    empty = count == 0 && !lengths_are_private();
    ends_unheard = tutti::ends_unheard(key.collective, empty, lengths != 0);
    if (one_hop) one_hop->resize(count);
  }
  // Makes it go another one of its ways.
  void go(uint32_t other);
  // Whether only the two ends of each block know its length: then the lengths are exchanged first.
  bool lengths_are_private() const {
    return key.lengths != 0 && tutti::lengths_are_private(key.collective);
  }
};

}  // namespace tutti
