#include "lib/adapters/mpi/in_use.h"

namespace tutti::mpi {
namespace {

bool keeps = false;

template <class Handle>
bool free_later(HandlesInUse<Handle>& in_use, Handle* handle, Handle none) {
  bind_host();
  if (!keeps || handle == nullptr || *handle == none || !in_use.free_later(*handle)) return false;
  *handle = none;
  return true;
}

}  // namespace

void keep_in_use(bool keep) { keeps = keep; }
bool keeps_in_use() { return keeps; }

// Neither is destroyed: threads may call while the process ends.
HandlesInUse<MPI_Datatype>& types_in_use() {
  static auto* const all = new HandlesInUse<MPI_Datatype>;
  return *all;
}
HandlesInUse<MPI_Op>& ops_in_use() {
  static auto* const all = new HandlesInUse<MPI_Op>;
  return *all;
}

int free_type(MPI_Datatype* type) {
  return free_later(types_in_use(), type, MPI_DATATYPE_NULL) ? MPI_SUCCESS : PMPI_Type_free(type);
}

int free_op(MPI_Op* op) {
  return free_later(ops_in_use(), op, MPI_OP_NULL) ? MPI_SUCCESS : PMPI_Op_free(op);
}

}  // namespace tutti::mpi
