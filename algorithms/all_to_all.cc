// All-to-all (full vectors: "one-shot", "naive", allgather and local reduce). Every rank sends its
// whole vector to every other one, in rotated order so that each step is a permutation, keeps all p
// vectors, and folds them in rank order: starting with the own vector instead would give every rank
// other bits.
//
// Rounds: p-1 one port, 1 with p-1 ports. Messages: p(p-1). Every rank sends (p-1) n and reduces
// (p-1) n. Cost (p-1)(alpha + n beta) + (p-1) n gamma; with p-1 ports alpha + (p-1) n (beta + gamma).
// Scratch p n.
//
// Order: kept. Bits: the same on all ranks (all evaluate one tree); position independent.
//
// When: a few KiB, few ranks, high latency. Folklore; Open MPI's allgather_reduce, one-shot kernels.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_all_to_all(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, rank = shape.rank;
  Emitter out(sink, 1, p);
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t from = before(rank, step, p);
    out.send(after(rank, step, p), output(0, 1));
    out.recv(from, out.scratch(from, 0, 1));
  }
  fold_in_rank_order(out, rank, p, 0, 1);
}

const Algorithm all_to_all{
    "all-to-all", Collective::allreduce,
    "every rank sends its whole vector to every other and reduces all of them in rank order",
    emit_all_to_all, serves_everything};

}  // namespace tutti
