#include "lib/adapters/mpi/in_use.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tutti::mpi {
namespace {

bool keeps = false;

int release(TypeHandle, MPI_Datatype* type) { return PMPI_Type_free(type); }
int release(OpHandle, MPI_Op* op) { return PMPI_Op_free(op); }
MPI_Datatype none(TypeHandle) { return MPI_DATATYPE_NULL; }
MPI_Op none(OpHandle) { return MPI_OP_NULL; }

template <class Kind>
class Registry {
 public:
  using Handle = typename Kind::Handle;

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

// Never destroyed: threads may call while the process ends.
template <class Kind>
Registry<Kind>& registry() {
  static auto* const all = new Registry<Kind>;
  return *all;
}

template <class Kind>
int free_unless_in_use(typename Kind::Handle* handle) {
  bind_host();
  if (!keeps || handle == nullptr || *handle == none(Kind()) ||
      !registry<Kind>().free_later(*handle))
    return release(Kind(), handle);
  *handle = none(Kind());
  return MPI_SUCCESS;
}

}  // namespace

void keep_in_use(bool keep) { keeps = keep; }

template <class Kind>
void InUse<Kind>::begin(Handle handle) {
  if (!keeps) return;
  registry<Kind>().begin(handle);
  handle_ = handle;
  kept_ = true;
}

template <class Kind>
void InUse<Kind>::end() {
  if (registry<Kind>().end(handle_)) release(Kind(), &handle_);
}

template class InUse<TypeHandle>;
template class InUse<OpHandle>;

int free_type(MPI_Datatype* type) { return free_unless_in_use<TypeHandle>(type); }
int free_op(MPI_Op* op) { return free_unless_in_use<OpHandle>(op); }

}  // namespace tutti::mpi
