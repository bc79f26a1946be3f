// What TUTTI_MPI_STATS prints.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tutti::mpi {

// row(name in lower case, in MPI's), of functions with counts and of all.
#define TUTTI_MPI_FUNCTIONS_WITH_COUNTS(row)                                                      \
  row(allreduce, Allreduce) row(reduce, Reduce) row(bcast, Bcast) row(allgather, Allgather)       \
      row(allgatherv, Allgatherv) row(gather, Gather) row(gatherv, Gatherv) row(scatter, Scatter) \
          row(scatterv, Scatterv) row(reduce_scatter, Reduce_scatter)                             \
              row(reduce_scatter_block, Reduce_scatter_block) row(alltoall, Alltoall)             \
                  row(alltoallv, Alltoallv) row(scan, Scan) row(exscan, Exscan)
#define TUTTI_MPI_FUNCTIONS(row) TUTTI_MPI_FUNCTIONS_WITH_COUNTS(row) row(barrier, Barrier)
enum class Function : uint8_t {
#define ROW(id, name) id,
  TUTTI_MPI_FUNCTIONS(ROW)
#undef ROW
      count
};

// Why the host made a call.
enum class Why : uint8_t {
  off,      // the interposer takes no part in this job
  no_comm,  // freed, or wrong
  intercommunicator,
  other_job,    // ranks of another MPI_COMM_WORLD
  setup,        // no communicator of tutti could be made
  few,          // none was made yet, of a communicator with few calls
  arguments,    // wrong ones, of which the host says what is wrong
  empty,        // nothing to move
  operation,    // the operator is not defined on the type, or the type has gaps
  nonblocking,  // where threads may not call at once
  persistent,
  thread,  // the program's operator would be called by a thread that the program does not know
  count
};

struct Counters {
  struct OfFunction {
    uint64_t calls = 0, bytes = 0;  // carried; bytes of this rank's buffers, in and out the larger
    std::array<uint64_t, size_t(Why::count)> by_host{};
  };
  std::array<OfFunction, size_t(Function::count)> functions{};
  OfFunction& of(Function f) { return functions[size_t(f)]; }
  void add(const Counters& other);
};

// The table, as lines of text. `off`: why the interposer takes no part, or "".
std::string describe(const Counters& counters, const std::string& off);

}  // namespace tutti::mpi
