// The part of the C API that needs no communicator: names, types, algorithms, the log.
#include "algorithms/registry.h"
#include "lib/api/guard.h"
#include "lib/api/sized.h"
#include "lib/base/log.h"
#include "lib/base/types.h"

#define TUTTI_TEXT_(x) #x
#define TUTTI_TEXT(x) TUTTI_TEXT_(x)

using namespace tutti;

extern "C" {

const char* tutti_status_name(tutti_status status) {
  static constexpr const char* names[] = {
      "OK",      "IN_PROGRESS", "INVALID", "UNSUPPORTED", "NO_MEMORY", "TIMEOUT", "PEER_FAILED",
      "ABORTED", "MISMATCH",    "CORRUPT", "AUTH",        "SYSTEM",    "INTERNAL"};
  return unsigned(status) < std::size(names) ? names[status] : "unknown status";
}

const char* tutti_last_error(void) { return api::thread_error().c_str(); }

const char* tutti_version(void) {
  return TUTTI_TEXT(TUTTI_VERSION_MAJOR) "." TUTTI_TEXT(TUTTI_VERSION_MINOR) "." TUTTI_TEXT(
      TUTTI_VERSION_PATCH);
}

size_t tutti_dtype_size(tutti_dtype dtype) { return dtype_size(dtype); }
const char* tutti_dtype_name(tutti_dtype dtype) { return dtype_name(dtype); }
const char* tutti_op_name(tutti_op op) { return op_name(op); }
const char* tutti_level_name(tutti_level level) { return level_name(level); }
int tutti_op_supports(tutti_op op, tutti_dtype dtype) { return op_supports(op, dtype) ? 1 : 0; }

tutti_status tutti_dtype_from_name(const char* name, tutti_dtype* out) {
  return api::guarded([&]() -> Status {
    if (name == nullptr || out == nullptr) return {TUTTI_INVALID, "an argument is NULL"};
    return dtype_from_name(name, out);
  });
}

tutti_status tutti_op_from_name(const char* name, tutti_op* out) {
  return api::guarded([&]() -> Status {
    if (name == nullptr || out == nullptr) return {TUTTI_INVALID, "an argument is NULL"};
    return op_from_name(name, out);
  });
}

tutti_status tutti_level_from_name(const char* name, tutti_level* out) {
  return api::guarded([&]() -> Status {
    if (name == nullptr || out == nullptr) return {TUTTI_INVALID, "an argument is NULL"};
    return level_from_name(name, out);
  });
}

tutti_status tutti_algorithm_get(size_t index, tutti_algorithm_info* out) {
  return api::guarded([&]() -> Status {
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the algorithm info"};
    TUTTI_TRY(api::check_size(out, "the algorithm info"));
    const std::span<const Algorithm> all = algorithms();
    if (index >= all.size()) {
      return {TUTTI_INVALID, "there are " + std::to_string(all.size()) + " algorithms"};
    }
    const Algorithm& one = all[index];
    const tutti_algorithm_info info{sizeof(info), one.name, collective_name(one.collective),
                                    one.about};
    api::write_sized(info, out);
    return {};
  });
}

void tutti_log_set(tutti_log_fn callback, void* context) { set_log(callback, context); }

}  // extern "C"
