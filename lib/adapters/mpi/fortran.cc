// Fortran, where its bindings call PMPI_X: they are caught themselves.
#include "lib/adapters/mpi/fortran.h"

#include <dlfcn.h>

#include "lib/adapters/mpi/collectives.h"

#ifdef OPEN_MPI
// All of them do. Modules mpi and mpi_f08 pass what mpif.h does, the latter perhaps without
// `ierror`.

namespace tutti::mpi::fortran {
namespace {

// Variables in a common block, each under one of these names.
struct Sentinels {
  const void* in_place[4];
  const void* bottom[4];
};

const Sentinels& sentinels() {
  static const Sentinels found = [] {
    Sentinels s;
    const char* const in_place[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place__",
                                    "mpi_fortran_in_place", "MPI_FORTRAN_IN_PLACE"};
    const char* const bottom[] = {"mpi_fortran_bottom_", "mpi_fortran_bottom__",
                                  "mpi_fortran_bottom", "MPI_FORTRAN_BOTTOM"};
    for (int i = 0; i < 4; ++i) {
      s.in_place[i] = dlsym(RTLD_DEFAULT, in_place[i]);
      s.bottom[i] = dlsym(RTLD_DEFAULT, bottom[i]);
    }
    return s;
  }();
  return found;
}

}  // namespace

void* buffer(void* given) {
  const Sentinels& s = sentinels();
  for (int i = 0; i < 4; ++i) {
    if (given != nullptr && given == s.in_place[i]) return MPI_IN_PLACE;
    if (given != nullptr && given == s.bottom[i]) return MPI_BOTTOM;
  }
  return given;
}

}  // namespace tutti::mpi::fortran

using namespace tutti::mpi::fortran;

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

EXPORT void mpi_allreduce_(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                           const Int* comm, Int* ierror) {
  tell(ierror,
       MPI_Allreduce(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)));
}
NAMES(mpi_allreduce, MPI_ALLREDUCE)

EXPORT void mpi_reduce_(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                        const Int* root, const Int* comm, Int* ierror) {
  tell(ierror, MPI_Reduce(buffer(send), buffer(recv), *count, type_of(type), op_of(op), *root,
                          comm_of(comm)));
}
NAMES(mpi_reduce, MPI_REDUCE)

EXPORT void mpi_scan_(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                      const Int* comm, Int* ierror) {
  tell(ierror,
       MPI_Scan(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)));
}
NAMES(mpi_scan, MPI_SCAN)

EXPORT void mpi_exscan_(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                        const Int* comm, Int* ierror) {
  tell(ierror,
       MPI_Exscan(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)));
}
NAMES(mpi_exscan, MPI_EXSCAN)

EXPORT void mpi_reduce_scatter_(void* send, void* recv, const Int* counts, const Int* type,
                                const Int* op, const Int* comm, Int* ierror) {
  tell(ierror, MPI_Reduce_scatter(buffer(send), buffer(recv), counts, type_of(type), op_of(op),
                                  comm_of(comm)));
}
NAMES(mpi_reduce_scatter, MPI_REDUCE_SCATTER)

EXPORT void mpi_reduce_scatter_block_(void* send, void* recv, const Int* count, const Int* type,
                                      const Int* op, const Int* comm, Int* ierror) {
  tell(ierror, MPI_Reduce_scatter_block(buffer(send), buffer(recv), *count, type_of(type),
                                        op_of(op), comm_of(comm)));
}
NAMES(mpi_reduce_scatter_block, MPI_REDUCE_SCATTER_BLOCK)

EXPORT void mpi_barrier_(const Int* comm, Int* ierror) { tell(ierror, MPI_Barrier(comm_of(comm))); }
NAMES(mpi_barrier, MPI_BARRIER)

EXPORT void mpi_bcast_(void* data, const Int* count, const Int* type, const Int* root,
                       const Int* comm, Int* ierror) {
  tell(ierror, MPI_Bcast(buffer(data), *count, type_of(type), *root, comm_of(comm)));
}
NAMES(mpi_bcast, MPI_BCAST)

EXPORT void mpi_allgather_(void* send, const Int* send_count, const Int* send_type, void* recv,
                           const Int* recv_count, const Int* recv_type, const Int* comm,
                           Int* ierror) {
  tell(ierror, MPI_Allgather(buffer(send), *send_count, type_of(send_type), buffer(recv),
                             *recv_count, type_of(recv_type), comm_of(comm)));
}
NAMES(mpi_allgather, MPI_ALLGATHER)

EXPORT void mpi_allgatherv_(void* send, const Int* send_count, const Int* send_type, void* recv,
                            const Int* counts, const Int* places, const Int* recv_type,
                            const Int* comm, Int* ierror) {
  tell(ierror, MPI_Allgatherv(buffer(send), *send_count, type_of(send_type), buffer(recv), counts,
                              places, type_of(recv_type), comm_of(comm)));
}
NAMES(mpi_allgatherv, MPI_ALLGATHERV)

EXPORT void mpi_gather_(void* send, const Int* send_count, const Int* send_type, void* recv,
                        const Int* recv_count, const Int* recv_type, const Int* root,
                        const Int* comm, Int* ierror) {
  tell(ierror, MPI_Gather(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                          type_of(recv_type), *root, comm_of(comm)));
}
NAMES(mpi_gather, MPI_GATHER)

EXPORT void mpi_gatherv_(void* send, const Int* send_count, const Int* send_type, void* recv,
                         const Int* counts, const Int* places, const Int* recv_type,
                         const Int* root, const Int* comm, Int* ierror) {
  tell(ierror, MPI_Gatherv(buffer(send), *send_count, type_of(send_type), buffer(recv), counts,
                           places, type_of(recv_type), *root, comm_of(comm)));
}
NAMES(mpi_gatherv, MPI_GATHERV)

EXPORT void mpi_scatter_(void* send, const Int* send_count, const Int* send_type, void* recv,
                         const Int* recv_count, const Int* recv_type, const Int* root,
                         const Int* comm, Int* ierror) {
  tell(ierror, MPI_Scatter(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                           type_of(recv_type), *root, comm_of(comm)));
}
NAMES(mpi_scatter, MPI_SCATTER)

EXPORT void mpi_scatterv_(void* send, const Int* counts, const Int* places, const Int* send_type,
                          void* recv, const Int* recv_count, const Int* recv_type, const Int* root,
                          const Int* comm, Int* ierror) {
  tell(ierror, MPI_Scatterv(buffer(send), counts, places, type_of(send_type), buffer(recv),
                            *recv_count, type_of(recv_type), *root, comm_of(comm)));
}
NAMES(mpi_scatterv, MPI_SCATTERV)

EXPORT void mpi_alltoall_(void* send, const Int* send_count, const Int* send_type, void* recv,
                          const Int* recv_count, const Int* recv_type, const Int* comm,
                          Int* ierror) {
  tell(ierror, MPI_Alltoall(buffer(send), *send_count, type_of(send_type), buffer(recv),
                            *recv_count, type_of(recv_type), comm_of(comm)));
}
NAMES(mpi_alltoall, MPI_ALLTOALL)

EXPORT void mpi_alltoallv_(void* send, const Int* send_counts, const Int* send_places,
                           const Int* send_type, void* recv, const Int* recv_counts,
                           const Int* recv_places, const Int* recv_type, const Int* comm,
                           Int* ierror) {
  tell(ierror,
       MPI_Alltoallv(buffer(send), send_counts, send_places, type_of(send_type), buffer(recv),
                     recv_counts, recv_places, type_of(recv_type), comm_of(comm)));
}
NAMES(mpi_alltoallv, MPI_ALLTOALLV)

}  // extern "C"

#elif !defined(MPI_ABI_VERSION)
// Of MPICH's module mpi_f08 those without buffers do. Beginning and end prepare Fortran, too.
namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void begin_if_initialized() {
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized != 0) tutti::mpi::begin();
}

}  // namespace

extern "C" {

EXPORT void mpi_init_f08_(MPI_Fint* ierror) {
  next<void(MPI_Fint*)>("mpi_init_f08_")(ierror);
  begin_if_initialized();
}

EXPORT void mpi_init_thread_f08_(const MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierror) {
  next<void(const MPI_Fint*, MPI_Fint*, MPI_Fint*)>("mpi_init_thread_f08_")(required, provided,
                                                                            ierror);
  begin_if_initialized();
}

EXPORT void mpi_finalize_f08_(MPI_Fint* ierror) {
  tutti::mpi::end();
  next<void(MPI_Fint*)>("mpi_finalize_f08_")(ierror);
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
