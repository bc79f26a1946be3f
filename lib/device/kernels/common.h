// What every kernel does besides its work: at the beginning it checks that the ranks agree and
// finds where their data lies; when all its blocks are done, the last one notifies the other ranks.
#pragma once

#include <cstdint>

#include "lib/device/abi.h"
#include "lib/device/kernels/both.h"

namespace tutti::device {

// In the shared memory of a block.
struct Turn {
  uint32_t over;
  uint32_t differs;  // the lowest rank whose entry differs; most_ranks: none
  uint32_t last;     // whether the block is the last one

  TUTTI_ON_BOTH bool works() const { return over == 0 && differs == most_ranks; }
};

TUTTI_ON_BOTH bool holds(uint32_t set, uint32_t rank) { return (set >> rank & 1) != 0; }

TUTTI_ON_BOTH bool agree(const Entry& a, const Entry& b) {
  return a.digest == b.digest && a.count == b.count && a.collective == b.collective &&
         a.dtype == b.dtype && a.op == b.op && a.root == b.root;
}

// This rank's own entry is in the arguments, not on the board.
TUTTI_ON_BOTH const Entry& entry_of(const Common& common, uint32_t rank) {
  return rank == common.self ? common.entry : common.own->entries[common.channel][rank];
}

// The address of the spot; `place`: from the entry of its rank. 0: it cannot be reached from here.
TUTTI_ON_BOTH Address address_of(const Common& common, const Spot& spot, const Place& place) {
  if (spot.address != 0) return spot.address + spot.offset;
  if (place.region == no_region) return 0;
  const Address begin =
      place.region == process_region ? 0 : common.own->regions[spot.rank][place.region];
  return begin + place.offset + spot.block * place.stride + spot.offset;
}
TUTTI_ON_BOTH Address input_at(const Common& common, const Spot& spot) {
  return address_of(common, spot, entry_of(common, spot.rank).input);
}
TUTTI_ON_BOTH Address output_at(const Common& common, const Spot& spot) {
  return address_of(common, spot, entry_of(common, spot.rank).output);
}

// Called by one thread of the grid.
TUTTI_ON_BOTH void report_begin(const Common& common) {
  common.own->call += 1;
  store_shared(&common.report->timeout_ms, common.timeout_ms);
  fence_system();
  store_shared(&common.report->begun, common.own->call);
}

// Called first. All threads of the block see `turn` after their next synchronise().
TUTTI_ON_BOTH void begin(const Common& common, const Team& team, Turn& turn) {
  if (team.thread == 0) turn.differs = most_ranks;
  team.synchronise();
  if (team.thread == 0) turn.over = load_shared(&common.own->over);
  for (uint32_t rank = team.thread; rank < most_ranks; rank += team.threads) {
    if (!holds(common.check, rank) || rank == common.self) continue;
    if (!agree(common.own->entries[common.channel][rank], common.entry)) {
      lower_to(&turn.differs, rank);
    }
  }
  // By the last thread of the block, which normally has no entry to check.
  if (common.begins != 0 && team.block == 0 && team.thread == team.threads - 1) {
    report_begin(common);
  }
}

// Called by one thread.
TUTTI_ON_BOTH void report_difference(const Common& common, uint32_t rank) {
  Report& report = *common.report;
  report.rank = rank;
  report.own = common.entry;
  report.theirs = common.own->entries[common.channel][rank];
  fence_system();
  store_shared(&report.failed, uint32_t{1});
  store_shared(&common.own->over, uint32_t{1});
}

// Called by all threads of one block. All flags of this rank are cleared before any of another rank
// is set: the answer to a set flag may come at once, on any flag of this rank.
TUTTI_ON_BOTH void tell(const Common& common, const Team& team) {
  for (uint32_t rank = team.thread; rank < most_ranks; rank += team.threads) {
    if (holds(common.announce, rank)) {
      common.boards[rank]->entries[common.channel][common.self] = common.entry;
    }
    for (const FlagSet& clear : common.clear) {
      if (holds(clear.ranks, rank)) {
        clear_bits(&common.own->flags[clear.flag][rank].value, flag_set);
      }
    }
  }
  team.synchronise();
  for (uint32_t rank = team.thread; rank < most_ranks; rank += team.threads) {
    if (!holds(common.set[0].ranks | common.set[1].ranks, rank)) continue;
    fence_system();
    for (const FlagSet& set : common.set) {
      if (holds(set.ranks, rank)) {
        set_bits(&common.boards[rank]->flags[set.flag][common.self].value, flag_set);
      }
    }
  }
}

// Called last. Where a rank has failed or its entry differs, no other rank is notified: none may go
// on with a result that was not computed.
TUTTI_ON_BOTH void end(const Common& common, const Team& team, Turn& turn) {
  team.synchronise();
  if (team.thread == 0) {
    fence_system();
    turn.last = arrives_last(&common.own->arrived[common.lane], team.blocks) ? 1 : 0;
    fence_system();
    // `over` may have been set since begin(): another block may have seen it and done nothing.
    turn.over = load_shared(&common.own->over);
  }
  team.synchronise();
  if (turn.last == 0) return;
  if (turn.works()) {
    tell(common, team);
  } else if (team.thread == 0 && turn.over == 0) {
    report_difference(common, turn.differs);
  }
  if (common.ends == 0) return;
  team.synchronise();
  if (team.thread == 0) {
    fence_system();
    store_shared(&common.report->ended, common.own->call);
  }
}

// tutti_empty.
TUTTI_ON_BOTH void empty_kernel(const Common& common, const Team& team, Turn& turn) {
  begin(common, team, turn);
  team.synchronise();
  end(common, team, turn);
}

}  // namespace tutti::device
