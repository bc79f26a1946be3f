// Master-worker (star, "linear", the centralised parameter-server pattern). Every rank sends its
// vector to rank 0, which keeps all, folds them in rank order and sends the result to every rank.
//
// Rounds: 2(p-1) one port, 2 with p-1 ports. Messages: 2(p-1). Busiest rank (0) sends (p-1) n and
// reduces (p-1) n. Cost 2(p-1)(alpha + n beta) + (p-1) n gamma. Scratch p n at rank 0.
//
// Order: kept (left fold). Bits: the same on all ranks (one owner, then copies); position independent.
//
// When: two or three ranks, or as the reference that everything else is compared with. Folklore; the
// basic linear allreduce of Open MPI.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_master_worker(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  Emitter out(sink, 1, shape.rank == 0 ? p : 0);
  if (shape.rank != 0) {
    out.send(0, output(0, 1));
    out.recv(0, output(0, 1));
    return;
  }
  for (uint32_t worker = 1; worker < p; ++worker) out.recv(worker, out.scratch(worker, 0, 1));
  fold_in_rank_order(out, 0, p, 0, 1);
  for (uint32_t worker = 1; worker < p; ++worker) out.send(worker, output(0, 1));
}

const Algorithm master_worker{
    "master-worker", Collective::allreduce,
    "rank 0 gathers all vectors, reduces them in rank order and sends the result back",
    emit_master_worker, serves_everything};

}  // namespace tutti
