// What the functions of the C API share whose calls are made of several collectives.
#pragma once

#include "lib/api/checks.h"
#include "lib/api/guard.h"
#include "lib/base/types.h"
#include "lib/sparse/compound.h"

namespace tutti::api {

// Indices are numbers of 32 bits.
inline Status check_length(uint64_t length, tutti_dtype dtype) {
  constexpr uint64_t most_length = uint64_t{1} << 32;
  TUTTI_TRY(check_vector(length, dtype));
  if (length <= most_length) return {};
  return {TUTTI_INVALID, "the length is " + std::to_string(length) + ", but indices have 32 bits"};
}

inline Status check_builtin(tutti_op op, tutti_dtype dtype) {
  TUTTI_TRY(check_operator(op, dtype));
  if (builtin_supports(op, dtype)) return {};
  return {TUTTI_INVALID, "this call takes built-in types and operators only"};
}

// For calls with one input vector and one output vector.
inline Status check_vectors(const void* send, const void* recv, uint64_t count, tutti_dtype dtype) {
  TUTTI_TRY(check_recv(recv, count));
  if (send == TUTTI_IN_PLACE) return {};
  TUTTI_TRY(check_send(send, count));
  return check_apart(send, count, recv, count, dtype);
}

inline sparse::Arguments arguments_of(uint64_t length, tutti_dtype dtype, tutti_op op) {
  sparse::Arguments arguments;
  arguments.length = length;
  arguments.dtype = uint32_t(dtype);
  arguments.op = uint32_t(op);
  return arguments;
}

// `most`: the strongest level that the call holds.
inline Status check_held(tutti_level asked, tutti_level most, tutti_dtype dtype, tutti_op op) {
  if (asked <= most || !op_rounds(op, dtype)) return {};
  return {TUTTI_UNSUPPORTED,
          std::string("this call holds level ") + level_name(most) + ", not " + level_name(asked)};
}

// `check` gives the Status of the arguments and of the level that is asked for, `body` that of the
// call. Both read `buffers`, so these may not lie on a GPU; NULL is allowed.
template <class Check, class Body>
tutti_status compound(tutti_comm comm, Compound kind, const tutti_call_config* config,
                      std::initializer_list<const void*> buffers, Check&& check, Body&& body) {
  return calling(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = read_config(config, &settings);
    if (checked.ok() && !settings.algorithm.empty()) {
      checked = {TUTTI_INVALID, "this call has one algorithm, which is not chosen by name"};
    }
    if (settings.level == TUTTI_LEVEL_DEFAULT) settings.level = c.settings().level;
    if (checked.ok()) checked = c.check_on_host(buffers);
    if (checked.ok()) checked = check(settings.level);
    if (checked.ok()) checked = c.outside_group();
    if (!checked.ok()) return c.refuse(std::move(checked));
    sparse::CompoundCall call(c, kind, settings);
    Status ended = sparse::attempt(call, [&] { return body(call); });
    return ended.ok() ? TUTTI_OK : c.fail(std::move(ended));
  });
}

}  // namespace tutti::api
