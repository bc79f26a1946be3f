// What:   Every rank sends its vector to rank 0, which folds them in rank order and sends the
//         result back to each.
// Cost:   2(p-1) rounds, 2 with p-1 ports; 2(p-1) messages; rank 0 sends and reduces (p-1)n bytes.
//         Time 2(p-1)(a + nb) + (p-1)nc.
// Bits:   Rank order kept; rank 0 computes and the others copy, so one tree for all ranks and
//         elements; all levels.
// When:   2 or 3 ranks, and as the reference that others are compared with. Folklore (star; "basic
//         linear" in MPI libraries).
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_master_worker(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  const schedule::Range vector = schedule::output(0, 1);
  if (shape.rank != 0) {
    schedule::Emitter emit(sink, 1);
    emit.send(0, vector);
    emit.recv(0, vector);
    return;
  }
  schedule::Emitter emit(sink, 1, p - 1);
  collect_and_fold(emit, 0, p, shape.bracketing);
  for (uint32_t worker = 1; worker < p; ++worker) emit.send(worker, vector);
}

}  // namespace

Algorithm master_worker() {
  return {"master-worker",
          Collective::allreduce,
          "rank 0 collects all vectors, combines them and hands the result out",
          emit_master_worker,
          serves_everything,
          {"2(p-1)", "2[p>1]", "2(p-1)", "p-1", "p-1"}};
}

}  // namespace tutti
