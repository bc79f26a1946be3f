// The part of the C API for going on after a failure.
#include <algorithm>
#include <cstring>

#include "lib/api/from_id.h"
#include "lib/api/guard.h"
#include "lib/control/wire.h"

using namespace tutti;

namespace {

// What each rank says in tutti_comm_grow(); rank 0's id counts.
struct Growth {
  int32_t joining = 0;
  tutti_unique_id id{};
};

Status check_growth(const Communicator& c, const tutti_unique_id* id, int joining, Fd* listener) {
  TUTTI_TRY(c.outside_group());
  if (joining < 1)
    return {TUTTI_INVALID, "there must be at least one that joins, not " + std::to_string(joining)};
  if (joining > wire::most_ranks - c.nranks())
    return {TUTTI_INVALID, std::to_string(joining) + " more are too many ranks"};
  if (c.rank() != 0) return {};
  if (id == nullptr) return {TUTTI_INVALID, "the id is NULL on rank 0"};
  return api::take_listener(*id, listener);
}

Status grow(Communicator& c, const tutti_unique_id* id, int joining, tutti_comm* out) {
  Fd listener;
  const Status ready = check_growth(c, id, joining, &listener);
  Growth mine{joining, id != nullptr ? *id : tutti_unique_id{}};
  std::vector<std::string> all;
  TUTTI_TRY(c.tell_all(ready, {reinterpret_cast<const char*>(&mine), sizeof(mine)}, &all));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Growth other;
    if (all[rank].size() != sizeof(other)) {
      return {TUTTI_MISMATCH, rank_name(int(rank)) + " does not take part in growing", int(rank)};
    }
    std::memcpy(&other, all[rank].data(), sizeof(other));
    if (rank == 0) mine.id = other.id;
    if (other.joining == joining) continue;
    return {TUTTI_MISMATCH,
            rank_name(c.rank()) + " lets " + std::to_string(joining) + " join, but " +
                rank_name(int(rank)) + " " + std::to_string(other.joining),
            int(rank)};
  }
  return api::from_id(mine.id, std::move(listener), c.rank(), c.nranks() + joining, c.settings(),
                      out);
}

}  // namespace

extern "C" {

tutti_status tutti_comm_failed_ranks(tutti_comm comm, int* ranks, size_t most, size_t* n) {
  return api::guarded(comm, [&](Communicator& c) {
    if (n == nullptr || (ranks == nullptr && most > 0))
      return c.fail({TUTTI_INVALID, "there is nowhere to put the failed ranks"});
    const std::vector<int> failed = c.failed_ranks().ranks();
    std::copy_n(failed.begin(), std::min(most, failed.size()), ranks);
    *n = failed.size();
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_agree(tutti_comm comm, uint64_t* value, int64_t timeout_ms) {
  return api::calling(comm, [&](Communicator& c) {
    if (value == nullptr) return c.fail({TUTTI_INVALID, "there is no value to agree on"});
    if (timeout_ms < 0) return c.fail({TUTTI_INVALID, "the time limit is negative"});
    return c.decide(value, timeout_ms);
  });
}

tutti_status tutti_comm_shrink(tutti_comm comm, int64_t timeout_ms, tutti_comm* out) {
  if (out != nullptr) *out = nullptr;
  return api::calling(comm, [&](Communicator& c) {
    if (out == nullptr) {
      return c.fail({TUTTI_INVALID, "there is nowhere to put the communicator"});
    }
    if (timeout_ms < 0) return c.fail({TUTTI_INVALID, "the time limit is negative"});
    std::unique_ptr<Communicator> made;
    const tutti_status status = c.shrink(timeout_ms, &made);
    if (status == TUTTI_OK) *out = api::wrap(made.release());
    return status;
  });
}

tutti_status tutti_comm_grow(tutti_comm comm, const tutti_unique_id* id, int joining,
                             tutti_comm* out) {
  if (out != nullptr) *out = nullptr;
  return api::calling(comm, [&](Communicator& c) {
    if (out == nullptr) {
      return c.fail({TUTTI_INVALID, "there is nowhere to put the communicator"});
    }
    Status grown = grow(c, id, joining, out);
    return grown.ok() ? TUTTI_OK : c.fail(std::move(grown));
  });
}

}  // extern "C"
