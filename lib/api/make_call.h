// The arguments of each collective of the C API, checked and turned into a call. One function for
// each, whether the call is made at once, beside the caller or again and again.
#pragma once

#include "lib/api/checks.h"
#include "lib/api/collectives.h"
#include "lib/base/types.h"
#include "lib/call/call.h"

namespace tutti::api {

inline const std::byte* bytes(const void* at) { return static_cast<const std::byte*>(at); }
inline std::byte* bytes(void* at) { return static_cast<std::byte*>(at); }

// In place: a copy of what was just written field by field would cost more than the whole check.
inline void set_key(MadeCall* made, Collective collective, uint64_t count, tutti_dtype dtype,
                    tutti_op op = TUTTI_SUM, int root = 0) {
  CallKey& key = made->call.key;
  key.count = count;
  key.root = root;
  key.collective = collective;
  key.dtype = dtype;
  key.op = op;
}

// A vector in, one of the same length out: allreduce, scans, and the root of a reduce.
Status check_vectors(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                     tutti_op op);

constexpr uint64_t plainly_fits = uint64_t{1} << 40;

// What nearly every vector is; else check_vector() says why not.
inline bool plain_vector(uint64_t count, tutti_dtype dtype) {
  return uint32_t(dtype) < TUTTI_DTYPE_COUNT && count <= plainly_fits;
}

// What nearly every call is, so that it passes with a few comparisons; else the checks say why not.
inline bool plainly_right(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                          tutti_op op) {
  if (!builtin_supports(op, dtype) || count == 0 || count > plainly_fits) return false;
  if (send == nullptr || recv == nullptr || recv == TUTTI_IN_PLACE) return false;
  if (send == TUTTI_IN_PLACE) return true;
  const uintptr_t a = reinterpret_cast<uintptr_t>(send), b = reinterpret_cast<uintptr_t>(recv);
  const uint64_t bytes = count * builtin_size(dtype);
  return a >= b + bytes || b >= a + bytes;
}

inline Status make_vectors(Collective collective, const void* send, void* recv, uint64_t count,
                           tutti_dtype dtype, tutti_op op, MadeCall* out) {
  if (!plainly_right(send, recv, count, dtype, op)) [[unlikely]]
    TUTTI_TRY(check_vectors(send, recv, count, dtype, op));
  set_key(out, collective, count, dtype, op);
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  return {};
}

#define TUTTI_DECLARE(name, parameters, arguments) \
  Status make_##name(const Communicator& c, TUTTI_BEFORE parameters MadeCall* out);
TUTTI_COLLECTIVES(TUTTI_DECLARE)
#undef TUTTI_DECLARE

// What is called most often.
inline Status make_allreduce(const Communicator&, const void* send, void* recv, size_t count,
                             tutti_dtype dtype, tutti_op op, MadeCall* out) {
  return make_vectors(Collective::allreduce, send, recv, count, dtype, op, out);
}

inline Status make_broadcast(const Communicator& c, void* buffer, size_t count, tutti_dtype dtype,
                             int root, MadeCall* out) {
  if (!plain_vector(count, dtype)) [[unlikely]]
    TUTTI_TRY(check_vector(count, dtype));
  if (root < 0 || root >= c.nranks()) [[unlikely]]
    TUTTI_TRY(check_root(c, root));
  if (count != 0 && buffer == nullptr) return {TUTTI_INVALID, "the buffer is NULL"};
  set_key(out, Collective::broadcast, count, dtype, TUTTI_SUM, root);
  out->call.input = out->call.output = bytes(buffer);
  return {};
}

inline void add_settings(const CallSettings& settings, Call* call) {
  call->key.unfused = settings.unfused;
  call->key.symmetric = settings.symmetric;
  call->key.level = settings.level;
  call->key.algorithm = settings.algorithm;
  call->timeout_ms = settings.timeout_ms;
}

// A call made by one of the functions above and what its config adds, if it may be made now.
template <auto make, class... Arguments>
[[gnu::always_inline]] inline Status make_call(Communicator& c, const tutti_call_config* config,
                                               MadeCall* out, Arguments... arguments) {
  CallSettings settings;
  if (config != nullptr) TUTTI_TRY(read_config(config, &settings));
  TUTTI_TRY(make(c, arguments..., out));
  TUTTI_TRY(c.outside_group());
  // Else there is nothing to add, and what adding that costs is felt.
  if (config != nullptr) add_settings(settings, &out->call);
  if (out->call.key.lengths != 0) out->call.blocks = &out->blocks;
  return {};
}

}  // namespace tutti::api
