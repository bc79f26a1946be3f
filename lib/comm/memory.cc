// Symmetric memory of a communicator: see lib/shared_memory/regions.h.
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
  Status ended = share_in_place(address, bytes, shared::Adopted::End::given_back);
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

Status Communicator::share_in_place(void* address, size_t bytes, shared::Adopted::End end) {
  TUTTI_TRY(outside_group());
  GroupExchange exchange(*this, connection_.key);
  return regions_.adopt(exchange, static_cast<std::byte*>(address), bytes, end,
                        deadline_after_ms(connection_.settings.setup_ms));
}

tutti_status Communicator::run_and_adopt(const Call& call) {
  const tutti_status ended = run_on_host(call);
  return ended == TUTTI_OK ? adoption_->after(call) : ended;
}

tutti_status Communicator::mem_release(const void* address) {
  if (regions_.remove(address)) return TUTTI_OK;
  if (gpu_ != nullptr && gpu_->remove_memory(address)) return TUTTI_OK;
  return fail({TUTTI_INVALID, "no memory of this communicator begins at that address"});
}

}  // namespace tutti
