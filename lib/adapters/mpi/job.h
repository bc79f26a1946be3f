// The interposer in this process, and what it keeps of each communicator.
#pragma once

#include <string>
#include <vector>

#include "lib/adapters/mpi/host.h"
#include "lib/adapters/mpi/stats.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

// An attribute of the host's communicator, made at the first call on it and freed with it.
struct Comm {
  tutti_comm own = nullptr;  // null: the host makes all calls
  Why why = Why::off;        // then
  int rank = 0, nranks = 1;
  int failed = MPI_SUCCESS;                   // the error that has ended `own`
  Counters counters;                          // of this communicator
  std::vector<char> packed[2];                // what is sent and received of types with gaps
  std::vector<size_t> lengths[2], places[2];  // of blocks sent and received, in bytes
};

// Around the host's MPI_Init and MPI_Finalize.
void begin();
void end();

// Null: before begin(), after end(), or the host has no such communicator. Makes what is kept of
// it, which is collective, so to be called by all of its ranks in a call that all make.
Comm* comm_of(MPI_Comm comm);

// Counts a call that has no Comm.
void count_without_comm(Function function);

// The call's error for the program: calls the communicator's error handler, and returns the code.
int raise(Comm& kept, MPI_Comm comm, tutti_status status);

}  // namespace tutti::mpi
