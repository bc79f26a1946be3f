// Communicators that the program frees. They have no Comm any more, on all ranks: what the program
// calls on one while its attributes are deleted the host does, in whatever order these are on each
// rank, and however late.
#pragma once

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

// Once, in MPI_Init. False: the host gave no keyval.
bool watch_freed_comms();

// Around the host's call that frees that communicator (null: none).
class BeingFreed {
 public:
  explicit BeingFreed(const MPI_Comm* comm);
  ~BeingFreed();
  BeingFreed(const BeingFreed&) = delete;
  BeingFreed& operator=(const BeingFreed&) = delete;

 private:
  const MPI_Comm* handle_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // null: nothing is known of it
};

// Whether it is being freed, or was and the host has not deleted all of its attributes yet.
bool is_freed(MPI_Comm comm);

}  // namespace tutti::mpi
