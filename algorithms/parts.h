// Building blocks that several algorithms share.
#pragma once

#include <array>
#include <span>

#include "algorithms/buffered_fold.h"

namespace tutti {

// The ranks [first, first + members) send each other their whole vectors, and each folds all of
// them. `place`: the own place among these ranks.
inline void exchange_and_fold(schedule::Emitter& emit, uint32_t first, uint32_t place,
                              uint32_t members, schedule::Bracketing bracketing) {
  for (uint32_t s = 1; s < members; ++s) {
    const uint32_t from = down(place, s, members);
    emit.send(first + up(place, s, members), schedule::output(0, 1));
    emit.recv(first + from, emit.scratch(peer_position(place, from), 0, 1));
  }
  fold_in_rank_order(emit, place, members, 0, 1, bracketing);
}

// The whole vector of every rank goes to all ranks after it, into the scratch row of its rank.
inline void exchange_upwards(schedule::Emitter& emit, uint32_t rank, uint32_t nranks) {
  for (uint32_t s = 1; s < nranks; ++s) {
    if (rank + s < nranks) emit.send(rank + s, schedule::output(0, 1));
    if (rank >= s) emit.recv(rank - s, emit.scratch(rank - s, 0, 1));
  }
}

// The root's side of a flat reduction: it receives all vectors and folds them.
inline void collect_and_fold(schedule::Emitter& emit, uint32_t root, uint32_t nranks,
                             schedule::Bracketing bracketing) {
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t from = up(root, s, nranks);
    emit.recv(from, emit.scratch(peer_position(root, from), 0, 1));
  }
  fold_in_rank_order(emit, root, nranks, 0, 1, bracketing);
}

// Blocks [first, first + size) of the ring of `nranks` output chunks, as the ranges of one message:
// two where they wrap around the end.
class Arc {
 public:
  Arc(uint32_t first, uint32_t size, uint32_t nranks)
      : parts_{schedule::output(first, std::min(first + size, nranks)),
               schedule::output(0, first + size > nranks ? first + size - nranks : 0)} {}
  operator std::span<const schedule::Range>() const { return parts_; }

 private:
  std::array<schedule::Range, 2> parts_;
};

// The subtree of a rank in a binomial tree over the ranks numbered from `root`, and the blocks that
// move between the rank and its parent: consecutive ones, the rank's own first.
struct BinomialTree {
  BinomialTree(uint32_t rank, uint32_t root, uint32_t nranks)
      : root(root), nranks(nranks), v(down(rank, root, nranks)) {}

  uint32_t levels() const { return binomial_levels(v, nranks); }
  bool has_child(uint32_t level) const { return v + (uint32_t{1} << level) < nranks; }
  uint32_t child(uint32_t level) const { return up(v + (uint32_t{1} << level), root, nranks); }
  uint32_t parent() const { return up(binomial_parent(v), root, nranks); }
  // The blocks of the subtree of the child at `level`.
  Arc blocks_of_child(uint32_t level) const {
    return subtree(v + (uint32_t{1} << level), uint32_t{1} << level);
  }
  Arc blocks() const { return subtree(v, uint32_t{1} << levels()); }

  uint32_t root, nranks, v;

 private:
  Arc subtree(uint32_t w, uint32_t size) const {
    return {up(w, root, nranks), std::min(size, nranks - w), nranks};
  }
};

// Partial results climb the binomial tree to the root, which is rank 0 of the tree.
inline void climb_binomial_tree(schedule::Emitter& emit, uint32_t rank, uint32_t root,
                                uint32_t nranks) {
  const BinomialTree tree(rank, root, nranks);
  for (uint32_t level = 0; level < tree.levels(); ++level) {
    if (tree.has_child(level)) {
      emit.recv_reduce(tree.child(level), schedule::output(0, 1), schedule::Side::right);
    }
  }
  if (rank != root) emit.send(tree.parent(), schedule::output(0, 1));
}

// The root's vector goes down the tree, to the largest subtrees first.
inline void descend_binomial_tree(schedule::Emitter& emit, uint32_t rank, uint32_t root,
                                  uint32_t nranks) {
  const BinomialTree tree(rank, root, nranks);
  if (rank != root) emit.recv(tree.parent(), schedule::output(0, 1));
  for (uint32_t level = tree.levels(); level-- > 0;) {
    if (tree.has_child(level)) emit.send(tree.child(level), schedule::output(0, 1));
  }
}

// Blocks go down a binomial tree from the root, each rank passing on those of its subtrees, the
// farthest first.
inline void binomial_scatter(schedule::Emitter& emit, uint32_t rank, uint32_t root,
                             uint32_t nranks) {
  const BinomialTree tree(rank, root, nranks);
  if (rank != root) emit.recv(tree.parent(), tree.blocks());
  for (uint32_t level = tree.levels(); level-- > 0;) {
    if (tree.has_child(level)) emit.send(tree.child(level), tree.blocks_of_child(level));
  }
}

// Every rank sends every other rank that one's chunk of p, at once, and folds what it receives for
// its own chunk.
inline void direct_reduce_scatter(schedule::Emitter& emit, uint32_t rank, uint32_t nranks,
                                  schedule::Bracketing bracketing) {
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t owner = up(rank, s, nranks);
    emit.send(owner, schedule::output(owner, owner + 1));
  }
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t from = down(rank, s, nranks);
    emit.recv(from, emit.scratch(peer_position(rank, from), rank, rank + 1));
  }
  fold_in_rank_order(emit, rank, nranks, rank, rank + 1, bracketing);
}

// Every rank sends its chunk of p to each other rank, at once.
inline void direct_allgather(schedule::Emitter& emit, uint32_t rank, uint32_t nranks) {
  for (uint32_t s = 1; s < nranks; ++s) {
    emit.send(up(rank, s, nranks), schedule::output(rank, rank + 1));
  }
  for (uint32_t s = 1; s < nranks; ++s) {
    const uint32_t owner = down(rank, s, nranks);
    emit.recv(owner, schedule::output(owner, owner + 1));
  }
}

// p chunks go round the ring, and each rank adds its part, with the lower rank's operand on the
// left. Rank r begins with chunk `first`, which is r plus an offset that is the same for all ranks,
// and finishes the chunk after it.
inline void ring_reduce_scatter(schedule::Emitter& emit, uint32_t rank, uint32_t nranks,
                                uint32_t first) {
  using schedule::Side;
  for (uint32_t s = 0; s + 1 < nranks; ++s) {
    const uint32_t out = down(first, s, nranks), in = down(first, s + 1, nranks);
    emit.send(up(rank, 1, nranks), schedule::output(out, out + 1));
    emit.recv_reduce(down(rank, 1, nranks), schedule::output(in, in + 1),
                     rank == 0 ? Side::right : Side::left);
  }
}

// p chunks go round the ring; `own` is the one that this rank has.
inline void ring_allgather(schedule::Emitter& emit, uint32_t rank, uint32_t nranks, uint32_t own) {
  for (uint32_t s = 0; s + 1 < nranks; ++s) {
    const uint32_t out = down(own, s, nranks), in = down(own, s + 1, nranks);
    emit.send(up(rank, 1, nranks), schedule::output(out, out + 1));
    emit.recv(down(rank, 1, nranks), schedule::output(in, in + 1));
  }
}

// Rank r has chunk r of p. Each round it gets as many chunks as it has, those that follow its own,
// from the rank that has them; in the last round it gets the rest.
inline void bruck_allgather(schedule::Emitter& emit, uint32_t rank, uint32_t nranks) {
  for (uint32_t held = 1; held < nranks; held *= 2) {
    const uint32_t more = std::min(held, nranks - held), from = up(rank, held, nranks);
    emit.send(down(rank, held, nranks), Arc(rank, more, nranks));
    emit.recv(from, Arc(from, more, nranks));
  }
}

// bruck_allgather() backwards: each round a rank sends on half of the chunks of which it still has
// partial results, to the rank that owns them or is closer to their owners, and adds what it gets
// to its own.
inline void bruck_reduce_scatter(schedule::Emitter& emit, uint32_t rank, uint32_t nranks) {
  using schedule::Side;
  if (nranks == 1) return;
  for (uint32_t held = std::bit_floor(nranks - 1); held > 0; held /= 2) {
    const uint32_t more = std::min(held, nranks - held);
    const uint32_t to = up(rank, held, nranks), from = down(rank, held, nranks);
    emit.send(to, Arc(to, more, nranks));
    emit.recv_reduce(from, Arc(rank, more, nranks), from < rank ? Side::left : Side::right);
  }
}

// Among the ranks from `first` on, each ends with the sum over them up to itself. Uses scratch row
// 0.
inline void doubling_scan(schedule::Emitter& emit, uint32_t rank, uint32_t first, uint32_t nranks) {
  const schedule::Range sum = schedule::output(0, 1), incoming = emit.scratch(0, 0, 1);
  for (uint32_t distance = 1; first + distance < nranks; distance *= 2) {
    if (rank + distance < nranks) emit.send(rank + distance, sum);
    if (rank >= first + distance) {
      emit.recv(rank - distance, incoming);
      emit.reduce(sum, incoming, schedule::Side::left);
    }
  }
}

}  // namespace tutti
