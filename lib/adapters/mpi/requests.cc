// MPI_X of C: nonblocking forms; persistent ones, which are the host's and counted; and what waits
// for requests, or tests them.
#include <sched.h>

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

// The requests as the host may see them: its own, and those of calls that have ended well. An error
// of a call it would tell in its way, which may be to end the program.
class OfHost {
 public:
  OfHost(int n, MPI_Request requests[])
      : requests_(requests), rest_(mpi::without_calls(requests, n)) {}
  // Whether all are.
  bool are_all() const { return rest_.empty(); }
  MPI_Request* data() { return rest_.data(); }
  // What the host has ended.
  void take_over() {
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (before_[i] == requests_[i]) requests_[i] = rest_[i];
    }
  }

 private:
  MPI_Request* requests_;
  std::vector<MPI_Request> rest_, before_ = rest_;
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
  OfHost rest(n, requests);
  if (rest.are_all()) return PMPI_Waitall(n, requests, statuses);
  const int code = PMPI_Waitall(n, rest.data(), statuses);
  rest.take_over();
  return end_with_failed(n, requests, statuses, code);
}

EXPORT int MPI_Waitany(int n, MPI_Request requests[], int* index, MPI_Status* status) {
  mpi::bind_host();
  int ended = 0;
  for (;;) {
    if (!mpi::in_flight()) return PMPI_Waitany(n, requests, index, status);
    const int code = MPI_Testany(n, requests, index, &ended, status);
    if (code != MPI_SUCCESS || ended != 0) return code;
    sched_yield();
  }
}

EXPORT int MPI_Waitsome(int n, MPI_Request requests[], int* ended, int indices[],
                        MPI_Status statuses[]) {
  mpi::bind_host();
  for (;;) {
    if (!mpi::in_flight()) return PMPI_Waitsome(n, requests, ended, indices, statuses);
    const int code = MPI_Testsome(n, requests, ended, indices, statuses);
    if (code != MPI_SUCCESS || *ended != 0) return code;
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
  OfHost rest(n, requests);
  if (rest.are_all()) return PMPI_Testall(n, requests, flag, statuses);
  const int code = PMPI_Testall(n, rest.data(), flag, statuses);
  if (code == MPI_SUCCESS && *flag == 0) return code;
  rest.take_over();
  return end_with_failed(n, requests, statuses, code);
}

EXPORT int MPI_Testany(int n, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  mpi::bind_host();
  mpi::advance(requests, n);
  int code = MPI_SUCCESS;
  const int at = first_failed(n, requests, &code);
  if (at >= 0) {
    *index = at;
    *flag = 1;
    return end_failed(&requests[at], code);
  }
  OfHost rest(n, requests);
  if (rest.are_all()) return PMPI_Testany(n, requests, index, flag, status);
  code = PMPI_Testany(n, rest.data(), index, flag, status);
  rest.take_over();
  if (code == MPI_SUCCESS && *flag != 0 && *index == MPI_UNDEFINED) {  // but the calls
    *flag = 0;
    mpi::move_host_on();
  }
  return code;
}

EXPORT int MPI_Testsome(int n, MPI_Request requests[], int* ended, int indices[],
                        MPI_Status statuses[]) {
  mpi::bind_host();
  mpi::advance(requests, n);
  int code = MPI_SUCCESS;
  const int at = first_failed(n, requests, &code);
  if (at >= 0) return end_some_failed(at, code, requests, ended, indices, statuses);
  OfHost rest(n, requests);
  if (rest.are_all()) return PMPI_Testsome(n, requests, ended, indices, statuses);
  code = PMPI_Testsome(n, rest.data(), ended, indices, statuses);
  rest.take_over();
  if (code == MPI_SUCCESS && *ended == MPI_UNDEFINED) {  // but the calls
    *ended = 0;
    mpi::move_host_on();
  }
  return code;
}

EXPORT int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  mpi::bind_host();
  const bool is_left = mpi::advance(&request, 1);
  if (!is_left && !mpi::has_failed(request)) return PMPI_Request_get_status(request, flag, status);
  *flag = is_left ? 0 : 1;  // MPI_Wait tells how it has failed
  mpi::move_host_on();
  return MPI_SUCCESS;
}
