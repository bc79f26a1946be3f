// Sparse allreduce of the C API.
#include <algorithm>
#include <functional>

#include "lib/api/compound.h"
#include "lib/sparse/allreduce.h"

namespace tutti::api {

namespace {

Status check_entries(const tutti_sparse_in& send, uint64_t length) {
  const size_t n = send.entries;
  if (n == 0) return {};
  if (send.indices == nullptr || send.values == nullptr) {
    return {TUTTI_INVALID, "the indices or values to send are NULL"};
  }
  const uint32_t* const end = send.indices + n;
  const uint32_t* const at = std::adjacent_find(send.indices, end, std::greater_equal<uint32_t>());
  if (at != end) {
    return {TUTTI_INVALID, "indices must ascend, but [" + std::to_string(at - send.indices) +
                               "] is " + std::to_string(at[0]) + " and the next " +
                               std::to_string(at[1])};
  }
  if (end[-1] < length) return {};
  return {TUTTI_INVALID, "index " + std::to_string(end[-1]) + " is not below the length, " +
                             std::to_string(length)};
}

Status check_sparse(const tutti_sparse_in* send, const tutti_sparse_out* recv, uint64_t length,
                    tutti_dtype dtype, tutti_op op) {
  TUTTI_TRY(check_length(length, dtype));
  TUTTI_TRY(check_builtin(op, dtype));
  if (send == nullptr || recv == nullptr) {
    return {TUTTI_INVALID, "what to send or where to receive is NULL"};
  }
  TUTTI_TRY(check_entries(*send, length));
  if (recv->capacity == 0) return {};
  if (recv->indices == nullptr || recv->values == nullptr) {
    return {TUTTI_INVALID, "the indices or values to receive are NULL"};
  }
  const uint64_t room = std::min<uint64_t>(recv->capacity, length);
  TUTTI_TRY(check_apart(send->values, send->entries, recv->values, room, dtype));
  return check_apart(send->indices, send->entries, recv->indices, room, TUTTI_UINT32);
}

Status run_sparse(sparse::CompoundCall& call, const tutti_sparse_in& send, tutti_sparse_out* recv,
                  const sparse::Arguments& arguments) {
  const sparse::Entries mine{send.indices, static_cast<const std::byte*>(send.values),
                             send.entries};
  sparse::Result result;
  Status ended = sparse::allreduce(call, arguments, mine, recv->capacity, &result);
  recv->entries = result.entries();
  if (!ended.ok()) return ended;
  Status copied = result.copy_to(recv->indices, static_cast<std::byte*>(recv->values));
  return copied.ok() ? Status() : call.broken_off(std::move(copied));
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce_sparse(const tutti_sparse_in* send, tutti_sparse_out* recv,
                                    size_t length, tutti_dtype dtype, tutti_op op,
                                    tutti_comm comm) {
  return tutti_allreduce_sparse_with(send, recv, length, dtype, op, comm, nullptr);
}
tutti_status tutti_allreduce_sparse_with(const tutti_sparse_in* send, tutti_sparse_out* recv,
                                         size_t length, tutti_dtype dtype, tutti_op op,
                                         tutti_comm comm, const tutti_call_config* config) {
  return api::compound(
      comm, Compound::allreduce_sparse, config,
      {send != nullptr ? send->indices : nullptr, send != nullptr ? send->values : nullptr,
       recv != nullptr ? recv->indices : nullptr, recv != nullptr ? recv->values : nullptr},
      [&](tutti_level level) -> Status {
        TUTTI_TRY(api::check_sparse(send, recv, length, dtype, op));
        return api::check_held(level, TUTTI_LEVEL_LAYOUT, dtype, op);
      },
      [&](sparse::CompoundCall& call) {
        return api::run_sparse(call, *send, recv, api::arguments_of(length, dtype, op));
      });
}

}  // extern "C"
