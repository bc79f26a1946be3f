// What several algorithms are built of.
#pragma once

#include "algorithms/buffered_fold.h"

namespace tutti {

// The whole vectors of the ranks [first, first + members) go from each to each, and every one of
// them folds all. `place`: the own place among them.
inline void exchange_and_fold(schedule::Emitter& emit, uint32_t first, uint32_t place,
                              uint32_t members) {
  for (uint32_t s = 1; s < members; ++s) {
    const uint32_t from = down(place, s, members);
    emit.send(first + up(place, s, members), schedule::output(0, 1));
    emit.recv(first + from, emit.scratch(peer_position(place, from), 0, 1));
  }
  fold_in_rank_order(emit, place, members, 0, 1);
}

// The root's side of a flat reduction: all vectors come to it, and it folds them.
inline void collect_and_fold(schedule::Emitter& emit, uint32_t root, uint32_t nranks) {
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t from = up(root, s, nranks);
    emit.recv(from, emit.scratch(peer_position(root, from), 0, 1));
  }
  fold_in_rank_order(emit, root, nranks, 0, 1);
}

// Partial results climb the binomial tree to the root, which is rank 0 of the tree.
inline void climb_binomial_tree(schedule::Emitter& emit, uint32_t rank, uint32_t root,
                                uint32_t nranks) {
  const uint32_t v = down(rank, root, nranks);
  const auto rank_of = [&](uint32_t w) { return up(w, root, nranks); };
  for (uint32_t i = 0; i < binomial_levels(v, nranks); ++i) {
    const uint32_t child = v + (uint32_t{1} << i);
    if (child < nranks) {
      emit.recv_reduce(rank_of(child), schedule::output(0, 1), schedule::Side::right);
    }
  }
  if (v != 0) emit.send(rank_of(binomial_parent(v)), schedule::output(0, 1));
}

// Every rank sends each other rank that one's chunk of p, at once, and folds what it gets for its
// own.
inline void direct_reduce_scatter(schedule::Emitter& emit, uint32_t rank, uint32_t nranks) {
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t owner = up(rank, s, nranks);
    emit.send(owner, schedule::output(owner, owner + 1));
  }
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t from = down(rank, s, nranks);
    emit.recv(from, emit.scratch(peer_position(rank, from), rank, rank + 1));
  }
  fold_in_rank_order(emit, rank, nranks, rank, rank + 1);
}

}  // namespace tutti
