// The protocols of calls over memory that the ranks share. Each is a state machine with the same
// interface (Protocol). They take turns in the same memory, where one may find what another has
// left.
#pragma once

#include <concepts>

#include "lib/base/status.h"
#include "lib/base/transfers.h"
#include "lib/shared_memory/one_hop.h"
#include "lib/shared_memory/one_shot.h"
#include "lib/shared_memory/or_direct.h"
#include "lib/shared_memory/sliced_one_shot.h"
#include "lib/shared_memory/two_level.h"
#include "lib/shared_memory/two_shot.h"
#include "lib/shared_memory/verdicts.h"

namespace tutti::shared {

template <class P>
concept Protocol = requires(P protocol, const P seen) {
  // Moves as far as the peers' flags allow and never blocks. Returns whether anything moved.
  { protocol.advance() } -> std::same_as<bool>;
  { seen.done() } -> std::same_as<bool>;
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  { seen.failure() } -> std::convertible_to<const Status&>;
  // The call has failed: takes back what this rank has posted about where its vectors lie.
  {protocol.withdraw()};
  // The lowest peer that the call waits for, -1 if none.
  { protocol.waits_for() } -> std::same_as<int>;
  // The same, but -1 also where the call can end before that peer has entered it.
  { protocol.needs() } -> std::same_as<int>;
  // Of all completed calls: what the schedule that the protocol implements sends and receives.
  { seen.transfers() } -> std::convertible_to<Transfers>;
};

class Protocols {
 public:
  // `link` must have cells. All ranks make theirs alike.
  Protocols(slots::SlotLink& link, const Regions& regions, Use non_temporal, Copying copying,
            uint32_t group_size, const Tuning& tuning)
      : writer_(non_temporal, tuning),
        staging_(link, writer_, tuning),
        single_copy_(staging_.flags(), copying),
        unstaged_(staging_.flags(), regions, single_copy_, staging_.tuning()),
        one_hop(link, regions, writer_, single_copy_, tuning),
        one_shot(staging_),
        one_shot_or_direct(staging_, unstaged_, OneShot(staging_)),
        sliced_one_shot(staging_, unstaged_, SlicedOneShot(one_hop)),
        two_level(staging_, group_size),
        two_shot(staging_, unstaged_, TwoShot(staging_)),
        verdicts(staging_.flags()) {}
  Protocols(const Protocols&) = delete;
  Protocols& operator=(const Protocols&) = delete;

  // The longest vectors, in bytes, that the protocols take. Up to the first length one-shot by
  // itself is best.
  size_t staged_bytes() const { return staging_.tuning().staged_bytes; }
  size_t one_shot_bytes() const { return staging_.most_block_bytes(); }
  size_t two_level_bytes() const { return TwoLevel::most_bytes(staging_.tuning()); }

  // Before the first call that may go by single copy: so that later ones allocate nothing. Where
  // there is no memory, calls go without.
  void reserve_for_copies() { unstaged_.copied.reserve(); }

  // Calls so far that went direct.
  uint64_t direct_calls() const {
    return one_shot_or_direct.direct_calls() + sliced_one_shot.direct_calls() +
           two_shot.direct_calls() + one_hop.direct_calls();
  }
  Transfers transfers() const {
    Transfers all = one_shot.transfers();
    all += one_shot_or_direct.transfers();
    all += sliced_one_shot.transfers();
    all += two_level.transfers();
    all += two_shot.transfers();
    return all += one_hop.transfers();
  }

 private:
  SliceWriter writer_;
  Staging staging_;
  SingleCopy single_copy_;
  Unstaged unstaged_;

 public:
  OneHop one_hop;
  OneShot one_shot;
  OrDirect<OneShot> one_shot_or_direct;
  OrDirect<SlicedOneShot> sliced_one_shot;
  TwoLevel two_level;
  OrDirect<TwoShot> two_shot;
  Verdicts verdicts;
};

static_assert(Protocol<OneShot> && Protocol<OrDirect<OneShot>> && Protocol<TwoLevel> &&
              Protocol<OrDirect<SlicedOneShot>> && Protocol<OrDirect<TwoShot>> && Protocol<OneHop>);

}  // namespace tutti::shared
