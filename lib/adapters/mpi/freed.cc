// Open MPI deletes attributes in MPI_Comm_free. Under MPICH, where requests on the communicator are
// in flight then, it does so when the last of them has ended, in MPI_Wait or any other call,
// perhaps of another thread, and gives the handle to a new communicator after that. So the
// communicator gets an attribute which, set last, is deleted first. What is called until then is on
// the one that was freed. Its deletion sets a mark, an attribute as well: MPICH finds this before
// those that it deletes (asked for one that is not there it would look at some that it has deleted
// already) and drops it with them. What is called on a communicator with the mark is on the one
// that was freed; without it, on a new one.
#include "lib/adapters/mpi/freed.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/adapters/mpi/job.h"

namespace tutti::mpi {
namespace {

struct Freed {
  MPI_Comm comm;
  std::thread::id by;  // that is in MPI_Comm_free; of none, when it has left
  enum class Attributes : uint8_t { there, deleted_by_it, being_deleted } attributes;
};

std::mutex freed_mutex;
std::vector<Freed>& freed() {                       // under the mutex
  static auto* const all = new std::vector<Freed>;  // outlives every thread
  return *all;
}
std::atomic<size_t> n_freed{0};
int freed_keyval = MPI_KEYVAL_INVALID;
int mark_keyval = MPI_KEYVAL_INVALID;

Freed* find_freed(MPI_Comm comm) {
  const auto one = std::find_if(freed().begin(), freed().end(),
                                [=](const Freed& other) { return other.comm == comm; });
  return one != freed().end() ? &*one : nullptr;
}

void erase_freed(MPI_Comm comm) {
  n_freed -= std::erase_if(freed(), [=](const Freed& one) { return one.comm == comm; });
}

int delete_begins(MPI_Comm comm, int, void*, void*) {
  {
    const std::lock_guard lock(freed_mutex);
    Freed* const one = find_freed(comm);
    if (one == nullptr) return MPI_SUCCESS;
    const bool by_it = one->by == std::this_thread::get_id();
    one->attributes = by_it ? Freed::Attributes::deleted_by_it : Freed::Attributes::being_deleted;
    if (by_it) return MPI_SUCCESS;
  }
  PMPI_Comm_set_attr(comm, mark_keyval, nullptr);
  return MPI_SUCCESS;
}

int delete_nothing(MPI_Comm, int, void*, void*) { return MPI_SUCCESS; }

}  // namespace

bool watch_freed_comms() {
  return PMPI_Comm_create_keyval(not_copied, delete_begins, &freed_keyval, nullptr) ==
             MPI_SUCCESS &&
         PMPI_Comm_create_keyval(not_copied, delete_nothing, &mark_keyval, nullptr) == MPI_SUCCESS;
}

BeingFreed::BeingFreed(const MPI_Comm* comm) : handle_(comm) {
  bind_host();
  // Of these two the host refuses it.
  if (comm == nullptr || *comm == MPI_COMM_NULL || *comm == MPI_COMM_WORLD ||
      *comm == MPI_COMM_SELF || !forget_comm(*comm))
    return;
  comm_ = *comm;
  {
    const std::lock_guard lock(freed_mutex);
    erase_freed(comm_);  // one that had the handle before
    freed().push_back({comm_, std::this_thread::get_id(), Freed::Attributes::there});
    ++n_freed;
  }
  if (PMPI_Comm_set_attr(comm_, freed_keyval, nullptr) == MPI_SUCCESS) return;
  const std::lock_guard lock(freed_mutex);
  erase_freed(comm_);
}

BeingFreed::~BeingFreed() {
  if (comm_ == MPI_COMM_NULL) return;
  bool refused = false;
  {
    const std::lock_guard lock(freed_mutex);
    Freed* const one = find_freed(comm_);
    // Another thread may have the handle again, and have freed that as well.
    if (one == nullptr || one->by != std::this_thread::get_id()) return;
    refused = one->attributes == Freed::Attributes::there && *handle_ != MPI_COMM_NULL;
    if (!refused && one->attributes != Freed::Attributes::deleted_by_it) {
      one->by = {};
      return;
    }
    erase_freed(comm_);
  }
  if (refused) PMPI_Comm_delete_attr(comm_, freed_keyval);
}

bool is_freed(MPI_Comm comm) {
  if (n_freed.load(std::memory_order_acquire) == 0) return false;
  {
    const std::lock_guard lock(freed_mutex);
    const Freed* const one = find_freed(comm);
    if (one == nullptr) return false;
    if (one->attributes == Freed::Attributes::there) return true;
    // Other threads may have the handle again before MPI_Comm_free has returned.
    if (one->attributes == Freed::Attributes::deleted_by_it)
      return one->by == std::this_thread::get_id();
  }
  void* unused = nullptr;
  int marked = 0;
  if (PMPI_Comm_get_attr(comm, mark_keyval, &unused, &marked) == MPI_SUCCESS && marked != 0)
    return true;
  const std::lock_guard lock(freed_mutex);
  const Freed* const one = find_freed(comm);
  if (one != nullptr && one->attributes == Freed::Attributes::being_deleted) erase_freed(comm);
  return false;
}

}  // namespace tutti::mpi
