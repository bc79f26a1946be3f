// The arguments of each collective of the C API, checked and turned into a call. One function for
// each collective serves its blocking, nonblocking and persistent forms.
#pragma once

#include "lib/api/checks.h"
#include "lib/api/collectives.h"
#include "lib/base/types.h"
#include "lib/call/call.h"

namespace tutti::api {

inline const std::byte* bytes(const void* at) { return static_cast<const std::byte*>(at); }
inline std::byte* bytes(void* at) { return static_cast<std::byte*>(at); }

// Writes the fields in place: copying a struct that was just written field by field would cost more
// than the whole check.
inline void set_key(MadeCall* made, Collective collective, uint64_t count, tutti_dtype dtype,
                    tutti_op op = TUTTI_SUM, int root = 0) {
  CallKey& key = made->call.key;
  key.count = count;
  key.root = root;
  key.collective = collective;
  key.dtype = dtype;
  key.op = op;
}

// One input vector and one output vector of the same length: allreduce, scans, and the root of a
// reduce.
Status check_vectors(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                     tutti_op op);

constexpr uint64_t plainly_fits = uint64_t{1} << 40;

// Whether the vector is of the common, valid kind; else check_vector() decides.
inline bool plain_vector(uint64_t count, tutti_dtype dtype) {
  return uint32_t(dtype) < TUTTI_DTYPE_COUNT && count <= plainly_fits;
}

// Bytes of an element that a built-in operator combines; 0: it does not. One load answers both.
struct CombinedBytes {
  uint8_t of[TUTTI_OP_COUNT][TUTTI_DTYPE_COUNT] = {};
  constexpr CombinedBytes() {
    for (int op = 0; op < TUTTI_OP_COUNT; ++op) {
      for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; ++dtype) {
        if (builtin_supports(tutti_op(op), tutti_dtype(dtype)))
          of[op][dtype] = uint8_t(builtin_size(tutti_dtype(dtype)));
      }
    }
  }
};
inline constexpr CombinedBytes combined_bytes;

// Bytes of an element of a call of the common, valid kind, found by a few comparisons; 0: the
// checks decide.
inline uint64_t plain_element_bytes(uint64_t count, tutti_dtype dtype, tutti_op op) {
  if (unsigned(op) >= TUTTI_OP_COUNT || unsigned(dtype) >= TUTTI_DTYPE_COUNT) return 0;
  return count != 0 && count <= plainly_fits ? combined_bytes.of[op][dtype] : 0;
}
// Whether both buffers are of that kind, too.
inline bool plainly_right(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                          tutti_op op) {
  const uint64_t element_size = plain_element_bytes(count, dtype, op);
  if (element_size == 0) return false;
  if (send == nullptr || recv == nullptr || recv == TUTTI_IN_PLACE) return false;
  if (send == TUTTI_IN_PLACE) return true;
  const uintptr_t a = reinterpret_cast<uintptr_t>(send), b = reinterpret_cast<uintptr_t>(recv);
  const uint64_t bytes = count * element_size;
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

// Inline, because they are called most often.
inline Status make_allreduce(const Communicator&, const void* send, void* recv, size_t count,
                             tutti_dtype dtype, tutti_op op, MadeCall* out) {
  return make_vectors(Collective::allreduce, send, recv, count, dtype, op, out);
}

inline Status make_broadcast(const Communicator& c, void* buffer, size_t count, tutti_dtype dtype,
                             int root, MadeCall* out) {
  if (!plain_vector(count, dtype)) [[unlikely]]
    TUTTI_TRY(check_vector(count, dtype));
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

// Makes a call by one of the functions above, adds its config, and checks that no group is open.
template <auto make, class... Arguments>
[[gnu::always_inline]] inline Status make_call(Communicator& c, const tutti_call_config* config,
                                               MadeCall* out, Arguments... arguments) {
  CallSettings settings;
  if (config != nullptr) TUTTI_TRY(read_config(config, &settings));
  TUTTI_TRY(make(c, arguments..., out));
  TUTTI_TRY(c.outside_group());
  // Without a config nothing is stored: that would cost measurable time.
  if (config != nullptr) add_settings(settings, &out->call);
  if (out->call.key.lengths != 0) out->call.blocks = &out->blocks;
  return {};
}

}  // namespace tutti::api
