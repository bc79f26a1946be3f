// How forked ranks of a test come to the id of their communicator.
#pragma once

#include <unistd.h>

#include "tutti/tutti.h"

namespace tutti::testing {

// The id that rank 0 makes and passes on through a pipe, to whoever reads it first. Ends the
// process where that does not go. `interface`: as tutti_unique_id_create() has it.
inline tutti_unique_id pass_id(int rank, int nranks, const int* pipe,
                               const char* interface = nullptr) {
  tutti_unique_id id;
  if (rank == 0) {
    if (tutti_unique_id_create(interface, &id) != TUTTI_OK) _exit(90);
    for (int r = 1; r < nranks; ++r) {
      if (write(pipe[1], &id, sizeof(id)) != ssize_t(sizeof(id))) _exit(91);
    }
  } else if (read(pipe[0], &id, sizeof(id)) != ssize_t(sizeof(id))) {
    _exit(92);
  }
  return id;
}

}  // namespace tutti::testing
