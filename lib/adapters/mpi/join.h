// Whether all ranks of the job have the interposer: before the first collective, since a rank that
// has it and one that has not would wait for each other.
#pragma once

#include <cstdint>
#include <string>

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

struct Together {
  std::string why_not;  // "": this rank takes part, as all do; else none does
  // Whether the user is to be told by this rank: by rank 0, by one that is not fit though rank 0
  // is, and where rank 0 has no interposer by all others, which know nothing of each other.
  bool tells = true;
};

// What threads do: of one rank one of these, of all what they have in common, perhaps none.
constexpr uint8_t threads_take_turns = 1, threads_call_at_once = 2;

// To be called by every rank that has the interposer, after MPI_Init; `fit`: this one can take
// part; `eager`: TUTTI_MPI_EAGER, by which ranks decide together; `in_common`: what this one's
// threads do, and then all ranks'. Sends messages on MPI_COMM_WORLD with the greatest tag; where
// ranks lack the interposer, the others wait for them for most_wait_seconds.
Together join(bool fit, bool eager, uint8_t* in_common);

constexpr int most_wait_seconds = 10;

}  // namespace tutti::mpi
