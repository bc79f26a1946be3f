// Whether all ranks of the job have the interposer: before the first collective, since a rank that
// has it and one that has not would wait for each other.
#pragma once

#include <string>

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

// To be called by every rank that has the interposer, after MPI_Init; `fit`: this one can take
// part; `eager`: TUTTI_MPI_EAGER, by which ranks decide together; `may_share`: whether this one's
// threads do not call at once, and then whether no rank's do. Says the same on all of them: "", or
// why none takes part. Sends messages on MPI_COMM_WORLD with the greatest tag; where ranks lack
// the interposer, the others wait for them for most_wait_seconds.
std::string join(bool fit, bool eager, bool* may_share);

constexpr int most_wait_seconds = 10;

}  // namespace tutti::mpi
