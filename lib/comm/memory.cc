// Symmetric memory of a communicator: see lib/shared_memory/regions.h.
#include <mutex>
#include <optional>

#include "lib/comm/comm.h"
#include "lib/comm/group_exchange.h"
#include "lib/gpu/gpu_front.h"

namespace tutti {

tutti_status Communicator::mem_alloc(size_t bytes, void** out) {
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  std::byte* made = nullptr;
  Status ended =
      regions_.allocate(exchange, bytes, deadline_after_ms(connection_.settings.setup_ms), &made);
  if (!ended.ok()) return fail(std::move(ended));
  *out = made;
  return TUTTI_OK;
}

tutti_status Communicator::mem_register(void* address, size_t bytes, int fd, uint64_t offset) {
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  Status ended = regions_.enlist(exchange, static_cast<std::byte*>(address), bytes, fd, offset,
                                 deadline_after_ms(connection_.settings.setup_ms));
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

tutti_status Communicator::mem_adopt(void* address, size_t bytes) {
  Status ended = share_in_place(address, bytes, shared::Adopted::End::given_back,
                                deadline_after_ms(connection_.settings.setup_ms));
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

Status Communicator::share_in_place(void* address, size_t bytes, shared::Adopted::End end,
                                    uint64_t deadline_ns) {
  TUTTI_TRY(outside_group());
  GroupExchange exchange(*this, connection_.key);
  return regions_.adopt(exchange, static_cast<std::byte*>(address), bytes, end, deadline_ns);
}

namespace {

// While one lives calls use what was adopted without the program's help.
class UseOfLeft {
 public:
  explicit UseOfLeft(shared::Regions& regions) : regions_(regions) { regions_.use_left(true); }
  ~UseOfLeft() { regions_.use_left(false); }
  UseOfLeft(const UseOfLeft&) = delete;
  UseOfLeft& operator=(const UseOfLeft&) = delete;

 private:
  shared::Regions& regions_;
};

}  // namespace

tutti_status Communicator::run_and_adopt(const Call& call) {
  const uint64_t deadline_ns = later_ns(now_ns(), connection_.timeout_ns(call.timeout_ms));
  tutti_status ended = TUTTI_OK;
  {
    // Of a call in flight nobody could give the vectors back where it fails.
    std::optional<UseOfLeft> use;
    if (!queue_.busy()) use.emplace(regions_);
    ended = run_on_host(call);
  }
  if (ended != TUTTI_OK) {
    // What was refused before it began has left everything as it was, as on ranks that have not
    // made the call.
    if (failures_.over()) adoption_->give_back(call);
    return ended;
  }
  Status adopted = adoption_->after(call, deadline_ns);
  if (adopted.ok()) return TUTTI_OK;
  return failures_.give_up(std::move(adopted), "while vectors that came back were adopted");
}

tutti_status Communicator::mem_release(const void* address) {
  {
    const std::lock_guard guard(queue_.lock());  // calls in flight look for regions
    if (regions_.remove(address)) return TUTTI_OK;
  }
  if (gpu_ != nullptr && gpu_->remove_memory(address)) return TUTTI_OK;
  return fail({TUTTI_INVALID, "no memory of this communicator begins at that address"});
}

}  // namespace tutti
