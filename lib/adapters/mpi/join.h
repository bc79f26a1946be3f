// Whether all ranks of the job have the interposer: before the first collective, since a rank that
// has it and one that has not would wait for each other.
#pragma once

#include <string>

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

struct Together {
  std::string why_not;  // "": this rank takes part, as all do; else none does
  // Whether the user is to be told by this rank: by rank 0, by one that is not fit though rank 0
  // is, and where rank 0 has no interposer by all others, which know nothing of each other.
  bool tells = true;
};

// To be called by every rank that has the interposer, after MPI_Init; `fit`: this one can take
// part; `eager`: TUTTI_MPI_EAGER, by which ranks decide together; `may_share`: whether this one's
// threads do not call at once, and then whether no rank's do. Sends messages on MPI_COMM_WORLD with
// the greatest tag; where ranks lack the interposer, the others wait for them for
// most_wait_seconds.
Together join(bool fit, bool eager, bool* may_share);

constexpr int most_wait_seconds = 10;

}  // namespace tutti::mpi
