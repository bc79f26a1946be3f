#include "lib/api/checks.h"

#include <algorithm>
#include <vector>

#include "lib/api/sized.h"
#include "lib/base/types.h"

namespace tutti::api {

namespace {

std::string elements(uint64_t count, tutti_dtype dtype) {
  return std::to_string(count) + " elements of " + dtype_name(dtype);
}

Status check_ends(const Communicator& c, const size_t* counts, const size_t* displs,
                  tutti_dtype dtype, const char* what, uint64_t* span) {
  TUTTI_TRY(check_vector(0, dtype));
  if (counts == nullptr) return {TUTTI_INVALID, std::string("the ") + what + " counts are NULL"};
  const uint64_t most = uint64_t(PTRDIFF_MAX) / dtype_size(dtype);
  *span = 0;
  uint64_t packed = 0;
  for (size_t r = 0; r < size_t(c.nranks()); ++r) {
    const uint64_t at = displs != nullptr ? displs[r] : packed;
    if (counts[r] > most || at > most - counts[r]) {
      return {TUTTI_INVALID, std::string("the ") + what + " block of rank " + std::to_string(r) +
                                 ", " + elements(counts[r], dtype) + ", ends beyond memory"};
    }
    packed = at + counts[r];
    if (counts[r] != 0) *span = std::max(*span, packed);
  }
  return {};
}

// Whether the blocks lie in the order of their ranks without overlapping, as they mostly do.
bool follow_each_other(const Communicator& c, const size_t* counts, const size_t* displs) {
  uint64_t end = 0;
  for (size_t r = 0; r < size_t(c.nranks()); ++r) {
    if (counts[r] == 0) continue;
    if (displs[r] < end) return false;
    end = displs[r] + counts[r];
  }
  return true;
}

[[gnu::always_inline]] inline Status read_fields(const tutti_call_config& config,
                                                 CallSettings* out) {
  if (config.timeout_ms < 0) return {TUTTI_INVALID, "timeout_ms is negative"};
  if ((config.flags & ~(TUTTI_CALL_UNFUSED | TUTTI_CALL_SYMMETRIC)) != 0) {
    return {TUTTI_INVALID, "unknown flags " + std::to_string(config.flags)};
  }
  TUTTI_TRY(check_level(config.level));
  out->level = config.level;
  out->timeout_ms = config.timeout_ms;
  out->unfused = (config.flags & TUTTI_CALL_UNFUSED) != 0;
  out->symmetric = (config.flags & TUTTI_CALL_SYMMETRIC) != 0;
  if (config.algorithm != nullptr && std::string_view(config.algorithm) != "auto") {
    out->algorithm = config.algorithm;
  }
  return {};
}

[[gnu::noinline]] Status read_other_version(const tutti_call_config* given, CallSettings* out) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  TUTTI_TRY(read_sized(given, "the call config", &config));
  return read_fields(config, out);
}

}  // namespace

Status read_config(const tutti_call_config* config, CallSettings* out) {
  if (config == nullptr) return {};
  // Nearly all are of this version, and are read in place: a copy of one that was just written
  // would cost measurable time.
  if (config->size == sizeof(tutti_call_config)) [[likely]]
    return read_fields(*config, out);
  return read_other_version(config, out);
}

Status check_level(tutti_level level) {
  if (level_name(level) != nullptr) return {};
  return {TUTTI_INVALID, "unknown level " + std::to_string(int(level))};
}

Status check_vector(uint64_t count, tutti_dtype dtype) {
  const size_t size = dtype_size(dtype);
  if (size == 0) return {TUTTI_INVALID, "unknown type " + std::to_string(int(dtype))};
  if (count > uint64_t(PTRDIFF_MAX) / size) {
    return {TUTTI_INVALID, elements(count, dtype) + " are more than memory can hold"};
  }
  return {};
}

Status check_operator(tutti_op op, tutti_dtype dtype) {
  if (!op_known(op)) {
    return {TUTTI_INVALID, "unknown operator " + std::to_string(int(op))};
  }
  if (!op_supports(op, dtype)) {
    return {TUTTI_INVALID,
            std::string("operator ") + op_name(op) + " is not defined on " + dtype_name(dtype)};
  }
  return {};
}

Status no_such_root(const Communicator& c, int root) {
  return {TUTTI_INVALID, "root " + std::to_string(root) + " is not a rank; there are " +
                             std::to_string(c.nranks())};
}

Status check_send(const void* send, uint64_t count) {
  if (count != 0 && send == nullptr) return {TUTTI_INVALID, "the send buffer is NULL"};
  if (send == TUTTI_IN_PLACE) {
    return {TUTTI_INVALID, "TUTTI_IN_PLACE is not allowed as this call's send buffer"};
  }
  return {};
}

Status check_recv(const void* recv, uint64_t count) {
  if (count != 0 && recv == nullptr) return {TUTTI_INVALID, "the receive buffer is NULL"};
  if (recv == TUTTI_IN_PLACE) {
    return {TUTTI_INVALID, "TUTTI_IN_PLACE stands for the send buffer, not for the receive buffer"};
  }
  return {};
}

Status check_apart(const void* send, uint64_t send_count, const void* recv, uint64_t recv_count,
                   tutti_dtype dtype) {
  if (send_count == 0 || recv_count == 0) return {};
  const uintptr_t a = reinterpret_cast<uintptr_t>(send), b = reinterpret_cast<uintptr_t>(recv);
  const size_t size = dtype_size(dtype);
  if (a < b + recv_count * size && b < a + send_count * size) {
    return {TUTTI_INVALID,
            "the send and receive buffers overlap; to work in place pass TUTTI_IN_PLACE"};
  }
  return {};
}

Status check_equal_blocks(const Communicator& c, uint64_t count, tutti_dtype dtype) {
  TUTTI_TRY(check_vector(count, dtype));
  const auto n = uint64_t(c.nranks());
  if (count > uint64_t(PTRDIFF_MAX) / dtype_size(dtype) / n) {
    return {TUTTI_INVALID, std::to_string(n) + " blocks of " + elements(count, dtype) +
                               " are more than memory can hold"};
  }
  return {};
}

Status check_send_blocks(const Communicator& c, const size_t* counts, const size_t* displs,
                         tutti_dtype dtype, uint64_t* span) {
  return check_ends(c, counts, displs, dtype, "send", span);
}

Status check_recv_blocks(const Communicator& c, const size_t* counts, const size_t* displs,
                         tutti_dtype dtype, uint64_t* span) {
  TUTTI_TRY(check_ends(c, counts, displs, dtype, "receive", span));
  if (displs == nullptr || follow_each_other(c, counts, displs)) return {};
  std::vector<size_t> order;  // ranks whose block is not empty, by its place
  for (size_t r = 0; r < size_t(c.nranks()); ++r) {
    if (counts[r] != 0) order.push_back(r);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return displs[a] < displs[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t a = order[i - 1], b = order[i];
    if (displs[a] + counts[a] <= displs[b]) continue;
    return {TUTTI_INVALID, "the receive blocks of ranks " + std::to_string(std::min(a, b)) +
                               " and " + std::to_string(std::max(a, b)) + " overlap"};
  }
  return {};
}

}  // namespace tutti::api
