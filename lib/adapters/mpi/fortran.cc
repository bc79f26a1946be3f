// Fortran, where its bindings call PMPI_X: they are caught themselves.
#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <vector>

#include "lib/adapters/mpi/collectives.h"

#define EXPORT __attribute__((visibility("default")))

// row(name in lower case, in upper case, which ends or moves on calls, parameters behind the
// requests', arguments): functions that wait for requests or test them, of one request and of n.
#define TUTTI_MPI_OF_REQUEST(row)                                    \
  row(mpi_wait, MPI_WAIT, end_now, LIST(void* status), LIST(status)) \
      row(mpi_test, MPI_TEST, advance, LIST(void* flag, void* status), LIST(flag, status))
#define TUTTI_MPI_OF_REQUESTS(row)                                                                 \
  row(mpi_waitall, MPI_WAITALL, end_now, LIST(void* statuses), LIST(statuses))                     \
      row(mpi_waitany, MPI_WAITANY, advance, LIST(void* index, void* status), LIST(index, status)) \
          row(mpi_waitsome, MPI_WAITSOME, advance,                                                 \
              LIST(void* ended, void* indices, void* statuses), LIST(ended, indices, statuses))    \
              row(mpi_testall, MPI_TESTALL, advance, LIST(void* flag, void* statuses),             \
                  LIST(flag, statuses))                                                            \
                  row(mpi_testany, MPI_TESTANY, advance,                                           \
                      LIST(void* index, void* flag, void* status), LIST(index, flag, status))      \
                      row(mpi_testsome, MPI_TESTSOME, advance,                                     \
                          LIST(void* ended, void* indices, void* statuses),                        \
                          LIST(ended, indices, statuses))
#define LIST(...) __VA_ARGS__

#ifndef MPI_ABI_VERSION
namespace {

// Who can call one of these has a library with the host's.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(tutti::mpi::next_function(name));
}

// With none of tutti's in flight the host's handles need not be looked at.
std::vector<MPI_Request> requests_of(const MPI_Fint* given, MPI_Fint n) {
  tutti::mpi::bind_host();
  std::vector<MPI_Request> out;
  if (!tutti::mpi::in_flight()) return out;
  for (MPI_Fint i = 0; i < n; ++i) out.push_back(PMPI_Request_f2c(given[i]));
  return out;
}

// Ends those of them whose call has failed; gives the code of one. The host would tell it in its
// own way, which may be to end the program, or not to return.
int end_failed(std::vector<MPI_Request>* requests, MPI_Fint* given) {
  int told = MPI_SUCCESS;
  for (size_t i = 0; i < requests->size(); ++i) {
    const int code = tutti::mpi::failure_of((*requests)[i]);
    if (code == MPI_SUCCESS) continue;
    told = code;
    PMPI_Request_free(&(*requests)[i]);
    given[i] = PMPI_Request_c2f((*requests)[i]);
  }
  return told;
}

#define FORWARD(symbol, moves, n, given, parameters, arguments)   \
  EXPORT void symbol(parameters) {                                \
    static const auto host = next<decltype(symbol)>(#symbol);     \
    std::vector<MPI_Request> requests = requests_of(given, n);    \
    tutti::mpi::moves(requests.data(), int(requests.size()));     \
    const int code = end_failed(&requests, given);                \
    host(arguments);                                              \
    if (code != MPI_SUCCESS && ierror != nullptr) *ierror = code; \
  }
#define OF_REQUEST(symbol, moves, parameters, arguments)                                    \
  FORWARD(symbol, moves, 1, request, LIST(MPI_Fint* request, parameters, MPI_Fint* ierror), \
          LIST(request, arguments, ierror))
#define OF_REQUESTS(symbol, moves, parameters, arguments)                         \
  FORWARD(symbol, moves, *n, given,                                               \
          LIST(const MPI_Fint* n, MPI_Fint* given, parameters, MPI_Fint* ierror), \
          LIST(n, given, arguments, ierror))

}  // namespace
#endif

#ifdef OPEN_MPI
// All of them do. Modules mpi and mpi_f08 pass what mpif.h does, the latter perhaps without
// `ierror`.

// The names that compilers and the modules give to a subroutine.
#define NAMES(lower, upper)                                          \
  EXPORT void lower##__(void) __attribute__((alias(#lower "_")));    \
  EXPORT void lower(void) __attribute__((alias(#lower "_")));        \
  EXPORT void lower##_f08_(void) __attribute__((alias(#lower "_"))); \
  EXPORT void upper(void) __attribute__((alias(#lower "_")));

// What gives a request: its names in lower case and in upper case, parameters, and the call.
#define WITH_REQUEST(lower, UPPER, parameters, call)            \
  EXPORT void lower##_(parameters, Int* request, Int* ierror) { \
    MPI_Request made{};                                         \
    const int code = call;                                      \
    if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made); \
    tell(ierror, code);                                         \
  }                                                             \
  NAMES(lower, UPPER)
// Of prefix MPI or MPIX: requests.cc.
#define PERSISTENT(mpi, MPI, lower, Name, UPPER, parameters, arguments)                       \
  EXPORT Persistent<decltype(PMPI_##Name)>::Form MPI##_##Name##_init;                         \
  WITH_REQUEST(mpi##_##lower##_init, MPI##_##UPPER##_INIT, LIST(parameters, const Int* info), \
               MPI##_##Name##_init(LIST(arguments), info_of(info), &made))
// All forms of a function: its names in lower case, in MPI's and in upper case, parameters and
// arguments.
#define COLLECTIVE(lower, Name, UPPER, parameters, arguments)                                      \
  EXPORT void mpi_##lower##_(parameters, Int* ierror) { tell(ierror, MPI_##Name(arguments)); }     \
  NAMES(mpi_##lower, MPI_##UPPER)                                                                  \
  WITH_REQUEST(mpi_i##lower, MPI_I##UPPER, LIST(parameters), MPI_I##lower(LIST(arguments), &made)) \
  PERSISTENT(mpi, MPI, lower, Name, UPPER, LIST(parameters), LIST(arguments))                      \
  PERSISTENT(mpix, MPIX, lower, Name, UPPER, LIST(parameters), LIST(arguments))

// The alias has the type of none: calls come from Fortran.
#pragma GCC diagnostic ignored "-Wattribute-alias"

namespace {

using Int = MPI_Fint;
static_assert(sizeof(Int) == sizeof(int), "arrays of counts are passed on");

// MPI_IN_PLACE and MPI_BOTTOM are variables in common blocks, each under one of these names. A
// library that a program has loaded for itself (RTLD_LOCAL: a module of Python's) may have ones of
// its own, which nobody else sees: so the object in whose memory a buffer lies is asked what it
// calls it.
constexpr const char* in_place_names[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place__",
                                          "mpi_fortran_in_place", "MPI_FORTRAN_IN_PLACE"};
constexpr const char* bottom_names[] = {"mpi_fortran_bottom_", "mpi_fortran_bottom__",
                                        "mpi_fortran_bottom", "MPI_FORTRAN_BOTTOM"};

// The program or a library of it. Another one may come to its place, but not with all of that.
struct Object {
  const link_map* map;
  ElfW(Addr) address;
  const void* dynamic;
  bool operator==(const Object&) const = default;
};

struct Sentinels {
  Object object;
  const void* in_place[4];
  const void* bottom[4];
};

// Null: none, as for memory of the stack and of the heap.
const link_map* object_of(void* address) {
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found;  // some 5 ns
  return _dl_find_object(address, &found) == 0 ? found.dlfo_link_map : nullptr;
#else
  Dl_info info;
  void* map = nullptr;
  return dladdr1(address, &info, &map, RTLD_DL_LINKMAP) != 0 ? static_cast<link_map*>(map)
                                                             : nullptr;
#endif
}

Sentinels look_up(const Object& object) {
  Sentinels out{object, {}, {}};
  const char* const path = object.map->l_name[0] != '\0' ? object.map->l_name : nullptr;
  void* const library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return out;
  for (int i = 0; i < 4; ++i) {
    out.in_place[i] = dlsym(library, in_place_names[i]);
    out.bottom[i] = dlsym(library, bottom_names[i]);
  }
  dlclose(library);
  return out;
}

Sentinels sentinels_of(const Object& object) {
  static std::mutex mutex;
  static std::vector<Sentinels>* const known = new std::vector<Sentinels>;  // outlives every thread
  const std::lock_guard lock(mutex);
  for (const Sentinels& one : *known) {
    if (one.object == object) return one;
  }
  known->push_back(look_up(object));
  return known->back();
}

void* buffer(void* given) {
  const link_map* const map = object_of(given);
  if (map == nullptr) return given;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Sentinels last{};
  const Object object{map, map->l_addr, map->l_ld};
  if (!(last.object == object)) last = sentinels_of(object);
  for (int i = 0; i < 4; ++i) {
    if (given == last.in_place[i]) return MPI_IN_PLACE;
    if (given == last.bottom[i]) return MPI_BOTTOM;
  }
  return given;
}

// Any of them may be the first that is called of the host.
#define HANDLE_OF(name, Object, Handle) \
  Handle name(const Int* given) {       \
    tutti::mpi::bind_host();            \
    return PMPI_##Object##_f2c(*given); \
  }
HANDLE_OF(comm_of, Comm, MPI_Comm)
HANDLE_OF(type_of, Type, MPI_Datatype)
HANDLE_OF(op_of, Op, MPI_Op)
HANDLE_OF(info_of, Info, MPI_Info)

void tell(Int* ierror, int code) {
  if (ierror != nullptr) *ierror = code;
}

// Open MPI 4.1 does not declare the persistent forms.
template <class Blocking>
struct Persistent;
template <class... Parameters>
struct Persistent<int(Parameters...)> {
  using Form = int(Parameters..., MPI_Info, MPI_Request*);
};

}  // namespace

extern "C" {

EXPORT void mpi_init_(Int* ierror) { tell(ierror, MPI_Init(nullptr, nullptr)); }
NAMES(mpi_init, MPI_INIT)

EXPORT void mpi_init_thread_(const Int* required, Int* provided, Int* ierror) {
  int level = 0;
  tell(ierror, MPI_Init_thread(nullptr, nullptr, *required, &level));
  *provided = level;
}
NAMES(mpi_init_thread, MPI_INIT_THREAD)

EXPORT void mpi_finalize_(Int* ierror) { tell(ierror, MPI_Finalize()); }
NAMES(mpi_finalize, MPI_FINALIZE)

#define FREEING(lower, Name, UPPER, Object, handle_of)             \
  EXPORT void mpi_##lower##_(Int* handle, Int* ierror) {           \
    auto freed = handle_of(handle);                                \
    const int code = MPI_##Name(&freed);                           \
    if (code == MPI_SUCCESS) *handle = PMPI_##Object##_c2f(freed); \
    tell(ierror, code);                                            \
  }                                                                \
  NAMES(mpi_##lower, MPI_##UPPER)
FREEING(comm_free, Comm_free, COMM_FREE, Comm, comm_of)
FREEING(comm_disconnect, Comm_disconnect, COMM_DISCONNECT, Comm, comm_of)
FREEING(type_free, Type_free, TYPE_FREE, Type, type_of)
FREEING(op_free, Op_free, OP_FREE, Op, op_of)

#define ONE(lower, UPPER, moves, parameters, arguments)          \
  OF_REQUEST(lower##_, moves, LIST(parameters), LIST(arguments)) \
  NAMES(lower, UPPER)
#define SEVERAL(lower, UPPER, moves, parameters, arguments)       \
  OF_REQUESTS(lower##_, moves, LIST(parameters), LIST(arguments)) \
  NAMES(lower, UPPER)
TUTTI_MPI_OF_REQUEST(ONE)
TUTTI_MPI_OF_REQUESTS(SEVERAL)

COLLECTIVE(allreduce, Allreduce, ALLREDUCE,
           LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                const Int* comm),
           LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

COLLECTIVE(reduce, Reduce, REDUCE,
           LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                const Int* root, const Int* comm),
           LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), *root, comm_of(comm)))

COLLECTIVE(scan, Scan, SCAN,
           LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                const Int* comm),
           LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

COLLECTIVE(exscan, Exscan, EXSCAN,
           LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                const Int* comm),
           LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

COLLECTIVE(reduce_scatter, Reduce_scatter, REDUCE_SCATTER,
           LIST(void* send, void* recv, const Int* counts, const Int* type, const Int* op,
                const Int* comm),
           LIST(buffer(send), buffer(recv), counts, type_of(type), op_of(op), comm_of(comm)))

COLLECTIVE(reduce_scatter_block, Reduce_scatter_block, REDUCE_SCATTER_BLOCK,
           LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                const Int* comm),
           LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

COLLECTIVE(barrier, Barrier, BARRIER, LIST(const Int* comm), LIST(comm_of(comm)))

COLLECTIVE(bcast, Bcast, BCAST,
           LIST(void* data, const Int* count, const Int* type, const Int* root, const Int* comm),
           LIST(buffer(data), *count, type_of(type), *root, comm_of(comm)))

COLLECTIVE(allgather, Allgather, ALLGATHER,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* recv_count, const Int* recv_type, const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                type_of(recv_type), comm_of(comm)))

COLLECTIVE(allgatherv, Allgatherv, ALLGATHERV,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* counts, const Int* places, const Int* recv_type, const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), counts, places,
                type_of(recv_type), comm_of(comm)))

COLLECTIVE(gather, Gather, GATHER,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                type_of(recv_type), *root, comm_of(comm)))

COLLECTIVE(gatherv, Gatherv, GATHERV,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* counts, const Int* places, const Int* recv_type, const Int* root,
                const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), counts, places,
                type_of(recv_type), *root, comm_of(comm)))

COLLECTIVE(scatter, Scatter, SCATTER,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                type_of(recv_type), *root, comm_of(comm)))

COLLECTIVE(scatterv, Scatterv, SCATTERV,
           LIST(void* send, const Int* counts, const Int* places, const Int* send_type, void* recv,
                const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
           LIST(buffer(send), counts, places, type_of(send_type), buffer(recv), *recv_count,
                type_of(recv_type), *root, comm_of(comm)))

COLLECTIVE(alltoall, Alltoall, ALLTOALL,
           LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                const Int* recv_count, const Int* recv_type, const Int* comm),
           LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                type_of(recv_type), comm_of(comm)))

COLLECTIVE(alltoallv, Alltoallv, ALLTOALLV,
           LIST(void* send, const Int* send_counts, const Int* send_places, const Int* send_type,
                void* recv, const Int* recv_counts, const Int* recv_places, const Int* recv_type,
                const Int* comm),
           LIST(buffer(send), send_counts, send_places, type_of(send_type), buffer(recv),
                recv_counts, recv_places, type_of(recv_type), comm_of(comm)))

}  // extern "C"

#elif !defined(MPI_ABI_VERSION)
// Of MPICH's module mpi_f08 those without buffers do. Beginning and end prepare Fortran, too.
namespace {

void begin_if_initialized() {
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized != 0) tutti::mpi::begin();
}

}  // namespace

extern "C" {

EXPORT void mpi_init_f08_(MPI_Fint* ierror) {
  tutti::mpi::refuse_foreign_host();
  next<void(MPI_Fint*)>("mpi_init_f08_")(ierror);
  begin_if_initialized();
}

EXPORT void mpi_init_thread_f08_(const MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierror) {
  tutti::mpi::refuse_foreign_host();
  next<void(const MPI_Fint*, MPI_Fint*, MPI_Fint*)>("mpi_init_thread_f08_")(required, provided,
                                                                            ierror);
  begin_if_initialized();
}

EXPORT void mpi_finalize_f08_(MPI_Fint* ierror) {
  tutti::mpi::bind_host();
  tutti::mpi::end();
  next<void(MPI_Fint*)>("mpi_finalize_f08_")(ierror);
}

#define FREEING(lower, Name, Object, Handle)                           \
  EXPORT void mpi_##lower##_f08_(MPI_Fint* handle, MPI_Fint* ierror) { \
    Handle freed = PMPI_##Object##_f2c(*handle);                       \
    const int code = MPI_##Name(&freed);                               \
    if (code == MPI_SUCCESS) *handle = PMPI_##Object##_c2f(freed);     \
    if (ierror != nullptr) *ierror = code;                             \
  }
FREEING(comm_free, Comm_free, Comm, MPI_Comm)
FREEING(comm_disconnect, Comm_disconnect, Comm, MPI_Comm)
FREEING(type_free, Type_free, Type, MPI_Datatype)
FREEING(op_free, Op_free, Op, MPI_Op)

#define ONE(lower, UPPER, moves, parameters, arguments) \
  OF_REQUEST(lower##_f08_, moves, LIST(parameters), LIST(arguments))
#define SEVERAL(lower, UPPER, moves, parameters, arguments) \
  OF_REQUESTS(lower##_f08_, moves, LIST(parameters), LIST(arguments))
TUTTI_MPI_OF_REQUEST(ONE)
TUTTI_MPI_OF_REQUESTS(SEVERAL)

// As MPI_Win_test. LOGICAL's .false. is 0.
EXPORT void mpi_win_test_f08_(const MPI_Fint* win, MPI_Fint* flag, MPI_Fint* ierror) {
  static const auto host = next<void(const MPI_Fint*, MPI_Fint*, MPI_Fint*)>("mpi_win_test_f08_");
  MPI_Fint code = MPI_SUCCESS;
  host(win, flag, &code);
  if (code == MPI_SUCCESS && *flag == 0) host(win, flag, &code);
  if (ierror != nullptr) *ierror = code;
}

EXPORT void mpi_barrier_f08_(const MPI_Fint* comm, MPI_Fint* ierror) {
  const int code = MPI_Barrier(PMPI_Comm_f2c(*comm));
  if (ierror != nullptr) *ierror = code;
}

EXPORT void mpi_ibarrier_f08_(const MPI_Fint* comm, MPI_Fint* request, MPI_Fint* ierror) {
  MPI_Request made{};
  const int code = MPI_Ibarrier(PMPI_Comm_f2c(*comm), &made);
  if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made);
  if (ierror != nullptr) *ierror = code;
}

EXPORT void mpi_barrier_init_f08_(const MPI_Fint* comm, const MPI_Fint* info, MPI_Fint* request,
                                  MPI_Fint* ierror) {
  MPI_Request made{};
  const int code = MPI_Barrier_init(PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info), &made);
  if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made);
  if (ierror != nullptr) *ierror = code;
}

}  // extern "C"
#endif
