// MPI_X of C: nonblocking forms; persistent ones, which are the host's and counted; and what waits
// for requests, or tests them.
#include <sched.h>

#include <algorithm>
#include <vector>

#include "lib/adapters/mpi/collectives.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define LIST(...) __VA_ARGS__

// row(name in lower case, in MPI's, suffix, parameters before the request's or the info's,
// arguments, types among them). Count and Place are the types of counts and of displacements.
#define MOVES(row, suffix, Count, Place)                                                           \
  row(bcast, Bcast, suffix,                                                                        \
      LIST(void* buffer, Count n, MPI_Datatype type, int root, MPI_Comm comm),                     \
      LIST(buffer, n, type, root, comm), LIST(type))                                               \
      row(allgather, Allgather, suffix,                                                            \
          LIST(const void* send, Count n, MPI_Datatype type, void* recv, Count recv_n,             \
               MPI_Datatype recv_type, MPI_Comm comm),                                             \
          LIST(send, n, type, recv, recv_n, recv_type, comm), LIST(type, recv_type))               \
          row(allgatherv, Allgatherv, suffix,                                                      \
              LIST(const void* send, Count n, MPI_Datatype type, void* recv, const Count* recv_ns, \
                   const Place* places, MPI_Datatype recv_type, MPI_Comm comm),                    \
              LIST(send, n, type, recv, recv_ns, places, recv_type, comm), LIST(type, recv_type))  \
              row(gather, Gather, suffix,                                                          \
                  LIST(const void* send, Count n, MPI_Datatype type, void* recv, Count recv_n,     \
                       MPI_Datatype recv_type, int root, MPI_Comm comm),                           \
                  LIST(send, n, type, recv, recv_n, recv_type, root, comm), LIST(type, recv_type)) \
                  row(gatherv, Gatherv, suffix,                                                    \
                      LIST(const void* send, Count n, MPI_Datatype type, void* recv,               \
                           const Count* recv_ns, const Place* places, MPI_Datatype recv_type,      \
                           int root, MPI_Comm comm),                                               \
                      LIST(send, n, type, recv, recv_ns, places, recv_type, root, comm),           \
                      LIST(type, recv_type))                                                       \
                      row(scatter, Scatter, suffix,                                                \
                          LIST(const void* send, Count n, MPI_Datatype type, void* recv,           \
                               Count recv_n, MPI_Datatype recv_type, int root, MPI_Comm comm),     \
                          LIST(send, n, type, recv, recv_n, recv_type, root, comm),                \
                          LIST(type, recv_type))                                                   \
                          row(scatterv, Scatterv, suffix,                                          \
                              LIST(const void* send, const Count* ns, const Place* places,         \
                                   MPI_Datatype type, void* recv, Count recv_n,                    \
                                   MPI_Datatype recv_type, int root, MPI_Comm comm),               \
                              LIST(send, ns, places, type, recv, recv_n, recv_type, root, comm),   \
                              LIST(type, recv_type))                                               \
                              row(alltoall, Alltoall, suffix,                                      \
                                  LIST(const void* send, Count n, MPI_Datatype type, void* recv,   \
                                       Count recv_n, MPI_Datatype recv_type, MPI_Comm comm),       \
                                  LIST(send, n, type, recv, recv_n, recv_type, comm),              \
                                  LIST(type, recv_type))                                           \
                                  row(alltoallv, Alltoallv, suffix,                                \
                                      LIST(const void* send, const Count* ns, const Place* places, \
                                           MPI_Datatype type, void* recv, const Count* recv_ns,    \
                                           const Place* recv_places, MPI_Datatype recv_type,       \
                                           MPI_Comm comm),                                         \
                                      LIST(send, ns, places, type, recv, recv_ns, recv_places,     \
                                           recv_type, comm),                                       \
                                      LIST(type, recv_type))
#define REDUCTIONS(row, suffix, Count)                                                          \
  row(allreduce, Allreduce, suffix,                                                             \
      LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
      LIST(send, recv, n, type, op, comm), LIST(type))                                          \
      row(reduce, Reduce, suffix,                                                               \
          LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, int root,   \
               MPI_Comm comm),                                                                  \
          LIST(send, recv, n, type, op, root, comm), LIST(type))                                \
          row(reduce_scatter, Reduce_scatter, suffix,                                           \
              LIST(const void* send, void* recv, const Count* ns, MPI_Datatype type, MPI_Op op, \
                   MPI_Comm comm),                                                              \
              LIST(send, recv, ns, type, op, comm), LIST(type))                                 \
              row(reduce_scatter_block, Reduce_scatter_block, suffix,                           \
                  LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op,     \
                       MPI_Comm comm),                                                          \
                  LIST(send, recv, n, type, op, comm), LIST(type))                              \
                  row(scan, Scan, suffix,                                                       \
                      LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, \
                           MPI_Comm comm),                                                      \
                      LIST(send, recv, n, type, op, comm), LIST(type))                          \
                      row(exscan, Exscan, suffix,                                               \
                          LIST(const void* send, void* recv, Count n, MPI_Datatype type,        \
                               MPI_Op op, MPI_Comm comm),                                       \
                          LIST(send, recv, n, type, op, comm), LIST(type))

#define NONBLOCKING(lower, Name, suffix, parameters, arguments, types)        \
  EXPORT int MPI_I##lower##suffix(parameters, MPI_Request* request) {         \
    return tutti::mpi::nonblocking(                                           \
        comm, tutti::mpi::Function::lower, {types}, request,                  \
        [=](const auto& host) { return tutti::mpi::lower(arguments, host); }, \
        TUTTI_MPI_IF_THERE(MPI_I##lower##suffix, arguments, request));        \
  }
#define PREPARED(MPI, lower, Name, suffix, parameters, arguments)                            \
  EXPORT int MPI##_##Name##_init##suffix(parameters, MPI_Info info, MPI_Request* request) {  \
    return tutti::mpi::by_host(                                                              \
        tutti::mpi::comm_of(comm), tutti::mpi::Function::lower, tutti::mpi::Why::persistent, \
        TUTTI_MPI_IF_THERE(MPI##_##Name##_init##suffix, arguments, info, request));          \
  }
#define PERSISTENT(lower, Name, suffix, parameters, arguments, types) \
  PREPARED(MPI, lower, Name, suffix, LIST(parameters), LIST(arguments))
#define EXTENSION(lower, Name, suffix, parameters, arguments, types) \
  PREPARED(MPIX, lower, Name, suffix, LIST(parameters), LIST(arguments))

#define ALL(row, suffix, Count, Place) \
  MOVES(row, suffix, Count, Place)     \
  REDUCTIONS(row, suffix, Count)       \
  row(barrier, Barrier, suffix, LIST(MPI_Comm comm), LIST(comm), )

ALL(NONBLOCKING, , int, int)

#ifdef OPEN_MPI
// Open MPI 5 has them, though it says that it is an MPI 3.1; 4.1 has them by names of its own.
#define DECLARED(lower, Name, suffix, parameters, arguments, types)                            \
  extern "C" __attribute__((weak)) int PMPI_##Name##_init(parameters, MPI_Info, MPI_Request*); \
  extern "C" __attribute__((weak)) int PMPIX_##Name##_init(parameters, MPI_Info, MPI_Request*);
ALL(DECLARED, , int, int)
ALL(EXTENSION, , int, int)
#endif
#if MPI_VERSION >= 4 || defined(OPEN_MPI)
ALL(PERSISTENT, , int, int)
#endif

#if MPI_VERSION >= 4
MOVES(NONBLOCKING, _c, MPI_Count, MPI_Aint)
REDUCTIONS(NONBLOCKING, _c, MPI_Count)
MOVES(PERSISTENT, _c, MPI_Count, MPI_Aint)
REDUCTIONS(PERSISTENT, _c, MPI_Count)
#endif

namespace mpi = tutti::mpi;

namespace {

// Calls that have failed are not left to the host, which may end the program over a message that is
// too long: their requests are freed, and the errors told here.
int end_failed(MPI_Request* request, int code) {
  PMPI_Request_free(request);
  return code;
}

// The first of the requests whose call has failed; negative: none has.
int first_failed(int n, MPI_Request requests[], int* code) {
  for (int i = 0; i < n; ++i) {
    *code = mpi::failure_of(requests[i]);
    if (*code != MPI_SUCCESS) return i;
  }
  return -1;
}

int end_some_failed(int at, int code, MPI_Request requests[], int* ended, int indices[],
                    MPI_Status statuses[]) {
  end_failed(&requests[at], code);
  *ended = 1;
  indices[0] = at;
  if (statuses != MPI_STATUSES_IGNORE) statuses[0].MPI_ERROR = code;
  return MPI_ERR_IN_STATUS;
}

// Requests before the host has ended some of them. What has failed while it did it has told itself.
class Given {
 public:
  Given(int n, const MPI_Request requests[])
      : requests_(mpi::in_flight() ? std::vector(requests, requests + n)
                                   : std::vector<MPI_Request>()) {}
  int told(int code) const {
    if (code == MPI_SUCCESS) return code;
    for (const MPI_Request request : requests_) mpi::failure_of(request);
    return code;
  }

 private:
  std::vector<MPI_Request> requests_;
};

// Where the host has ended all but those that have failed.
int end_with_failed(int n, MPI_Request requests[], MPI_Status statuses[], int code) {
  for (int i = 0; i < n; ++i) {
    const int error = mpi::failure_of(requests[i]);
    if (error != MPI_SUCCESS) end_failed(&requests[i], error);
    if (statuses == MPI_STATUSES_IGNORE) continue;
    if (error != MPI_SUCCESS)
      statuses[i].MPI_ERROR = error;
    else if (code == MPI_SUCCESS)
      statuses[i].MPI_ERROR = MPI_SUCCESS;
  }
  return MPI_ERR_IN_STATUS;
}

// The requests without those that have failed; empty: none has.
std::vector<MPI_Request> without_failed(int n, const MPI_Request requests[]) {
  std::vector<MPI_Request> rest;
  if (std::none_of(requests, requests + n, mpi::has_failed)) return rest;
  for (int i = 0; i < n; ++i)
    rest.push_back(mpi::has_failed(requests[i]) ? MPI_REQUEST_NULL : requests[i]);
  return rest;
}

// Those that the host has ended are null in `rest` and not in `requests`, as those that failed are.
void take_over(const std::vector<MPI_Request>& rest, MPI_Request requests[]) {
  for (size_t i = 0; i < rest.size(); ++i) {
    if (!mpi::has_failed(requests[i])) requests[i] = rest[i];
  }
}

}  // namespace

EXPORT int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  mpi::bind_host();
  if (request != nullptr && mpi::end_now(request, 1)) {
    const int code = mpi::failure_of(*request);
    if (code != MPI_SUCCESS) return end_failed(request, code);
  }
  return PMPI_Wait(request, status);
}

EXPORT int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
  mpi::bind_host();
  if (!mpi::end_now(requests, n)) return PMPI_Waitall(n, requests, statuses);
  std::vector<MPI_Request> rest = without_failed(n, requests);
  if (rest.empty()) return PMPI_Waitall(n, requests, statuses);
  const int code = PMPI_Waitall(n, rest.data(), statuses);
  take_over(rest, requests);
  return end_with_failed(n, requests, statuses, code);
}

EXPORT int MPI_Waitany(int n, MPI_Request requests[], int* index, MPI_Status* status) {
  mpi::bind_host();
  const Given given(n, requests);
  for (;;) {
    const bool are_left = mpi::advance(requests, n);
    int code = MPI_SUCCESS, ended = 0;
    const int at = first_failed(n, requests, &code);
    if (at >= 0) {
      *index = at;
      return end_failed(&requests[at], code);
    }
    if (!are_left) return PMPI_Waitany(n, requests, index, status);
    code = PMPI_Testany(n, requests, index, &ended, status);
    if (code != MPI_SUCCESS || ended != 0) return given.told(code);
    sched_yield();
  }
}

EXPORT int MPI_Waitsome(int n, MPI_Request requests[], int* ended, int indices[],
                        MPI_Status statuses[]) {
  mpi::bind_host();
  const Given given(n, requests);
  for (;;) {
    const bool are_left = mpi::advance(requests, n);
    int code = MPI_SUCCESS;
    const int at = first_failed(n, requests, &code);
    if (at >= 0) return end_some_failed(at, code, requests, ended, indices, statuses);
    if (!are_left) return PMPI_Waitsome(n, requests, ended, indices, statuses);
    code = PMPI_Testsome(n, requests, ended, indices, statuses);
    if (code != MPI_SUCCESS || *ended != 0) return given.told(code);
    sched_yield();
  }
}

EXPORT int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  mpi::bind_host();
  if (request != nullptr && mpi::advance(request, 1)) {
    *flag = 0;
    mpi::move_host_on();
    return MPI_SUCCESS;
  }
  const int code = request != nullptr ? mpi::failure_of(*request) : MPI_SUCCESS;
  if (code == MPI_SUCCESS) return PMPI_Test(request, flag, status);
  *flag = 1;
  return end_failed(request, code);
}

EXPORT int MPI_Testall(int n, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  mpi::bind_host();
  if (mpi::advance(requests, n)) {
    *flag = 0;
    mpi::move_host_on();
    return MPI_SUCCESS;
  }
  std::vector<MPI_Request> rest = without_failed(n, requests);
  if (rest.empty()) return PMPI_Testall(n, requests, flag, statuses);
  const int code = PMPI_Testall(n, rest.data(), flag, statuses);
  if (code == MPI_SUCCESS && *flag == 0) return code;
  take_over(rest, requests);
  return end_with_failed(n, requests, statuses, code);
}

EXPORT int MPI_Testany(int n, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  mpi::bind_host();
  const Given given(n, requests);
  mpi::advance(requests, n);
  int code = MPI_SUCCESS;
  const int at = first_failed(n, requests, &code);
  if (at < 0) return given.told(PMPI_Testany(n, requests, index, flag, status));
  *index = at;
  *flag = 1;
  return end_failed(&requests[at], code);
}

EXPORT int MPI_Testsome(int n, MPI_Request requests[], int* ended, int indices[],
                        MPI_Status statuses[]) {
  mpi::bind_host();
  const Given given(n, requests);
  mpi::advance(requests, n);
  int code = MPI_SUCCESS;
  const int at = first_failed(n, requests, &code);
  if (at < 0) return given.told(PMPI_Testsome(n, requests, ended, indices, statuses));
  return end_some_failed(at, code, requests, ended, indices, statuses);
}

EXPORT int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  mpi::bind_host();
  mpi::advance(&request, 1);
  if (!mpi::has_failed(request)) return PMPI_Request_get_status(request, flag, status);
  *flag = 1;  // MPI_Wait tells how
  return MPI_SUCCESS;
}
