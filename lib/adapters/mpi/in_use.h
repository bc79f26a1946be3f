// Types and operators of the program's that a call uses. Another thread may free one meanwhile,
// once it knows that the call has begun on all ranks: the host's own calls keep what they use until
// they have ended, and so do the interposer's.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "lib/adapters/mpi/host.h"

namespace tutti::mpi {

// Whether threads may call at once, else nothing is kept. To be said once, in MPI_Init.
void keep_in_use(bool keep);
bool keeps_in_use();

template <class Handle>
class HandlesInUse {
 public:
  void begin(Handle handle) {
    const std::lock_guard lock(mutex_);
    if (Use* const one = find(handle)) {
      ++one->calls;
    } else {
      all_.push_back({handle, 1, false});
    }
  }
  // True: it was to be freed meanwhile, which the caller must do now.
  bool end(Handle handle) {
    const std::lock_guard lock(mutex_);
    Use* const one = find(handle);
    if (--one->calls > 0) return false;
    const bool freed = one->freed;
    all_.erase(all_.begin() + (one - all_.data()));
    return freed;
  }
  // False: no call uses it. Else the last one's end() frees it.
  bool free_later(Handle handle) {
    const std::lock_guard lock(mutex_);
    Use* const one = find(handle);
    if (one == nullptr) return false;
    return one->freed = true;
  }

 private:
  struct Use {
    Handle handle;
    int calls;
    bool freed;
  };
  Use* find(Handle handle) {
    const auto one = std::find_if(all_.begin(), all_.end(),
                                  [=](const Use& use) { return use.handle == handle; });
    return one != all_.end() ? &*one : nullptr;
  }

  std::mutex mutex_;
  std::vector<Use> all_;
};

HandlesInUse<MPI_Datatype>& types_in_use();
HandlesInUse<MPI_Op>& ops_in_use();

// MPI_Type_free() and MPI_Op_free() of the program's.
int free_type(MPI_Datatype* type);
int free_op(MPI_Op* op);

}  // namespace tutti::mpi
