// Nonblocking calls that tutti carries, on each communicator one after the other. Threads that wait
// for them or test them move them on; where none does, threads of the interposer do. The program's
// request is one of the host's, for an empty message that this rank sends to itself once the call
// has ended: every function of the host takes it, also beside others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/adapters/mpi/host.h"
#include "lib/adapters/mpi/in_use.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

struct Comm;

// Thrown where a call turns out to be one that waits, and must not.
struct MustWait {};

struct NonblockingCall {
  // Begins the call on tutti, or makes it, if it may wait, and leaves NULL; gives MPI's code.
  std::function<int(tutti_request*, bool may_wait)> begin;
  bool waits = false;  // in that
  bool begun = false;
  tutti_request own = nullptr;
  MPI_Comm comm{};
  std::optional<InUse<TypeHandle>> types[2];
  MPI_Request request{};
  int tag = 0;
  uint64_t number = 0;  // on its communicator
  uint64_t due_ns = 0;  // when a thread of the interposer moves it on
  uint64_t nap_ns = 0;  // how long that has left it alone
};

// Those of one communicator, under the mutex of all lanes.
struct Lane {
  Comm* kept;
  std::deque<std::unique_ptr<NonblockingCall>> calls;
  uint64_t nbegun = 0;
  size_t nwaiting = 0;  // calls that wait
  bool busy = false;    // a thread moves the first of them on
};

// In MPI_Init. On that communicator this rank sends itself the requests' messages; its errors are
// returned.
void prepare_requests(MPI_Comm comm);

// When all calls have ended, in MPI_Finalize.
void end_requests();

// The call comes after those on the communicator before it. `types` are in use until it has ended.
// Returns "", or why it cannot be: then there is no request.
std::string begin_later(Comm& kept, MPI_Comm comm, std::initializer_list<MPI_Datatype> types,
                        bool waits, std::function<int(tutti_request*, bool may_wait)> begin,
                        MPI_Request* request);

// Returns when no call is left on the lane.
void end_all(Lane& lane);
// The same before that communicator is freed.
void end_all(Lane& lane, MPI_Comm comm);

// Whether end_now() and advance() may have something to do.
bool in_flight();

// Before the host waits for these requests: ends the calls among them. Whether there were any.
bool end_now(const MPI_Request* requests, int n);

// Before the host tests these requests: moves the calls among them on. Whether any has not ended.
bool advance(const MPI_Request* requests, int n);

// The requests with MPI_REQUEST_NULL for those of calls that have not ended or have failed; empty:
// there are none.
std::vector<MPI_Request> without_calls(const MPI_Request* requests, int n);

// Whether the request's call has failed: to the host it has ended with a message that is too long.
bool has_failed(MPI_Request request);
// Its code, once, after the communicator's error handler has been called. MPI_SUCCESS: it was no
// call, or has not failed.
int failure_of(MPI_Request request);

// Between two looks of a call that waits for other ranks. False: it is not a thread of the
// interposer, but one of the program's.
bool rest_from_call();

}  // namespace tutti::mpi
