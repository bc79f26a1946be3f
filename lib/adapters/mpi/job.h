// The interposer in this process, and what it keeps of each communicator.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/adapters/mpi/host.h"
#include "lib/adapters/mpi/nonblocking.h"
#include "lib/adapters/mpi/stats.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

// An attribute of the host's communicators, kept from the first call on one of them until the last
// is freed. Duplicates have their original's, and communicators of all ranks in the order of
// MPI_COMM_WORLD have its: calls on communicators of the same ranks come in one order on all of
// them (in another, ranks would wait for each other in a circle), unless threads call at once.
struct Comm {
  Comm() = default;
  ~Comm() { tutti_comm_free(own); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  tutti_comm own = nullptr;  // null: the host makes all calls
  Why why = Why::few;        // then
  bool world = false;        // all ranks of MPI_COMM_WORLD in its order
  int rank = 0, nranks = 1;
  int users = 1;             // communicators that have it; under the job's mutex
  uint32_t calls = 0;        // that the host made since they were few,
  uint64_t spent_ns = 0;     // and the time that it took
  int failed = MPI_SUCCESS;  // the error that has ended `own`
  // For nonblocking calls, whose order among blocking ones programs do not keep (MPI wants it, but
  // its libraries let them pass each other). Null: the host makes them.
  std::unique_ptr<Comm> later;
  Lane lane{this};                            // of `later`: calls that have not ended
  Counters counters;                          // of these communicators
  std::vector<char> packed[2];                // what is sent and received of types with gaps
  std::vector<size_t> lengths[2], places[2];  // of blocks sent and received, in bytes
};

// Ends the process where its MPI has another ABI, as MPI ends a program that makes an error where
// it begins: calls would be garbled here. Before the host's MPI_Init, in any of its forms.
void refuse_foreign_host();

// Around the host's MPI_Init and MPI_Finalize.
void begin();
void end();

// The last communicator of this thread. Handles are used again: a number says which have been freed
// since.
struct LastComm {
  MPI_Comm comm{};
  Comm* kept = nullptr;
  uint64_t freed = 0;
};
extern constinit thread_local LastComm last_comm [[gnu::tls_model("initial-exec")]];
extern constinit std::atomic<uint64_t> freed_comms;

Comm* find_comm(MPI_Comm comm);

// Null: before begin(), after end(), or the host has no such communicator.
inline Comm* comm_of(MPI_Comm comm) {
  const LastComm& last = last_comm;
  if (last.comm == comm && last.kept != nullptr &&
      last.freed == freed_comms.load(std::memory_order_acquire)) [[likely]]
    return last.kept;
  return find_comm(comm);
}

// Before the host frees it. False: before begin() or after end().
bool forget_comm(MPI_Comm comm);

// Of MPI_Comm_create_keyval(), for attributes that duplicates do not get.
int not_copied(MPI_Comm, int, void*, void*, void*, int* copied);

// Makes tutti's communicator of one whose calls were few, if it is time: at the first call on one
// of all ranks (or on any, with TUTTI_MPI_EAGER); else once the host has spent as much on its calls
// as the making costs, so that both together take at most some twice the time of the better (the
// ski rental problem). Collective. Says whether there is one now.
bool make_in_time(MPI_Comm comm, Comm& kept);

// Whether threads of every rank may call at once. Else nobody may end a request while the program
// is in a call of the host's.
bool carries_nonblocking();

// Lets the host move its messages on. Not while the host itself makes a call.
void move_host_on();

// Counts a call that has no Comm.
void count_without_comm(Function function);

// While one lives, raise() in this thread does not call error handlers.
class ErrorsToldLater {
 public:
  ErrorsToldLater();
  ~ErrorsToldLater();
  ErrorsToldLater(const ErrorsToldLater&) = delete;
  ErrorsToldLater& operator=(const ErrorsToldLater&) = delete;

 private:
  bool outer_;
};

// The call's error for the program: calls the communicator's error handler, and returns the code.
int raise(Comm& kept, MPI_Comm comm, tutti_status status);
// The same for a call of a function that the host does not have.
int raise_missing(MPI_Comm comm, const char* function);

}  // namespace tutti::mpi
