// Types and operators of the program's that a call uses. Another thread may free one meanwhile,
// once it knows that the call has begun on all ranks: the host's own calls keep what they use until
// they have ended, and so do the interposer's.
#pragma once

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

// Whether threads may call at once, else nothing is kept. To be said once, in MPI_Init.
void keep_in_use(bool keep);

struct TypeHandle {
  using Handle = MPI_Datatype;
};
struct OpHandle {
  using Handle = MPI_Op;
};

// From begin() on one handle is in use until the end of this: then it is freed, if it was to be
// freed meanwhile and no other call uses it.
template <class Kind>
class InUse {
 public:
  using Handle = typename Kind::Handle;

  InUse() = default;
  ~InUse() {
    if (kept_) [[unlikely]]
      end();
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  void begin(Handle handle);

 private:
  void end();

  Handle handle_{};
  bool kept_ = false;
};

// MPI_Type_free() and MPI_Op_free() of the program's.
int free_type(MPI_Datatype* type);
int free_op(MPI_Op* op);

}  // namespace tutti::mpi
