// The part of the C API that computes on one rank, with the same bits as the collectives.
#include <cstring>

#include "lib/api/checks.h"
#include "lib/api/guard.h"
#include "lib/base/types.h"
#include "lib/base/user_types.h"
#include "lib/reduce/binned.h"
#include "lib/reduce/reduce.h"

namespace tutti::api {

namespace {

using reduce::BinnedFloat32;
using reduce::BinnedFloat64;
using reduce::FloatFormat;

static_assert(sizeof(tutti_binned_float32) == sizeof(BinnedFloat32));
static_assert(sizeof(tutti_binned_float64) == sizeof(BinnedFloat64));

Status check_operands(const void* const* operands, size_t n, const void* out, size_t bytes) {
  if (operands == nullptr) return {TUTTI_INVALID, "the list of operands is NULL"};
  if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the result"};
  const auto to = reinterpret_cast<uintptr_t>(out);
  for (size_t k = 0; k < n; ++k) {
    if (operands[k] == nullptr) {
      return {TUTTI_INVALID, "operand " + std::to_string(k) + " is NULL"};
    }
    const auto from = reinterpret_cast<uintptr_t>(operands[k]);
    if (from != to && from < to + bytes && to < from + bytes) {
      return {TUTTI_INVALID, "the result overlaps operand " + std::to_string(k) +
                                 " without being in the same place"};
    }
  }
  return {};
}

// The kernels of an operator at a level; for an operator of the program's they point to `function`.
Status bind_operator(tutti_dtype dtype, tutti_op op, tutti_level level, UserFunction* function,
                     Kernels* out) {
  if (unsigned(op) < TUTTI_OP_COUNT) return find_kernels(dtype, op, level, out);
  UserOp found;
  if (!find_user_op(op, &found)) return {TUTTI_INVALID, "the operator has been freed"};
  if (found.function == nullptr) {
    return {TUTTI_UNSUPPORTED, "pre-multiplied sums work on communicators only"};
  }
  out->user = function;
  return bind_function(found, dtype, level, function);
}

Status reduce_local(const void* const* operands, size_t n, void* out, size_t count,
                    tutti_dtype dtype, tutti_op op, tutti_level level) {
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  TUTTI_TRY(check_level(level));
  UserFunction function;
  Kernels kernels;
  TUTTI_TRY(bind_operator(dtype, op, level, &function, &kernels));
  if (n == 0 || n > size_t(INT32_MAX)) {
    return {TUTTI_INVALID,
            std::to_string(n) + " operands; there must be at least one and fewer " + "than 2^31"};
  }
  if (count == 0) return {};
  TUTTI_TRY(check_operands(operands, n, out, count * dtype_size(dtype)));
  if (n == 1 && gives_truth(op, dtype)) {
    find_kernels(dtype, TUTTI_LOR).reduce2(out, operands[0], operands[0], count);
    return {};
  }
  kernels.reduce(out, operands, n, count);
  if (kernels.divide != nullptr && n > 1) kernels.divide(out, count, uint32_t(n));
  return {};
}

const FloatFormat* format_of(tutti_dtype dtype) {
  switch (dtype) {
    case TUTTI_FLOAT8_E4M3:
      return &reduce::kFloat8E4M3;
    case TUTTI_FLOAT8_E5M2:
      return &reduce::kFloat8E5M2;
    case TUTTI_FLOAT16:
      return &reduce::kFloat16;
    case TUTTI_BFLOAT16:
      return &reduce::kBFloat16;
    case TUTTI_FLOAT32:
      return &reduce::kFloat32;
    case TUTTI_FLOAT64:
      return &reduce::kFloat64;
    default:
      return nullptr;
  }
}

// The checks of all functions on accumulators. `values`: the input or the output.
Status check_binned(const void* accumulators, tutti_dtype accumulator, const void* values,
                    size_t count, tutti_dtype dtype) {
  TUTTI_TRY(check_vector(count, accumulator));
  TUTTI_TRY(check_vector(count, dtype));
  if (!dtype_is_binned(accumulator)) {
    return {TUTTI_INVALID, std::string(dtype_name(accumulator)) +
                               " is not a type of accumulators; allowed: binned_float32, "
                               "binned_float64"};
  }
  if (format_of(dtype) == nullptr) {
    return {TUTTI_INVALID, std::string("accumulators take and give floating-point numbers, not ") +
                               dtype_name(dtype)};
  }
  if (count == 0) return {};
  if (accumulators == nullptr) return {TUTTI_INVALID, "the accumulators are NULL"};
  if (values == nullptr) return {TUTTI_INVALID, "the values are NULL"};
  return {};
}

uint64_t load_pattern(const std::byte* from, size_t size) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, from, size);  // little-endian machines only, as all of the library
  return pattern;
}

// Adds values[i] to the accumulator at i * stride. Accumulators may have any alignment.
template <class Sum>
void deposit(std::byte* accumulators, size_t stride, const std::byte* values, size_t count,
             tutti_dtype dtype) {
  const FloatFormat& format = *format_of(dtype);
  const size_t size = dtype_size(dtype);
  Sum sum;
  if (stride == 0) std::memcpy(&sum, accumulators, sizeof(sum));
  for (size_t i = 0; i < count; ++i) {
    if (stride != 0) std::memcpy(&sum, accumulators + i * stride, sizeof(sum));
    reduce::binned_add(&sum, format, load_pattern(values + i * size, size));
    if (stride != 0) std::memcpy(accumulators + i * stride, &sum, sizeof(sum));
  }
  if (stride == 0) std::memcpy(accumulators, &sum, sizeof(sum));
}

tutti_status deposit(void* accumulators, tutti_dtype accumulator, const void* values, size_t count,
                     tutti_dtype dtype, bool in_one) {
  return guarded([&]() -> Status {
    TUTTI_TRY(check_binned(accumulators, accumulator, values, count, dtype));
    if (accumulator == TUTTI_BINNED_FLOAT32 && dtype == TUTTI_FLOAT64) {
      return {TUTTI_INVALID, "binned_float32 has no room for float64; use binned_float64"};
    }
    if (count == 0) return {};
    auto* to = static_cast<std::byte*>(accumulators);
    const auto* from = static_cast<const std::byte*>(values);
    const size_t stride = in_one ? 0 : dtype_size(accumulator);
    if (accumulator == TUTTI_BINNED_FLOAT32) {
      deposit<BinnedFloat32>(to, stride, from, count, dtype);
    } else {
      deposit<BinnedFloat64>(to, stride, from, count, dtype);
    }
    return {};
  });
}

template <class Sum>
Status finish(const std::byte* accumulators, std::byte* out, size_t count, tutti_dtype dtype) {
  const FloatFormat& format = *format_of(dtype);
  const size_t size = dtype_size(dtype);
  for (size_t i = 0; i < count; ++i) {
    Sum sum;
    std::memcpy(&sum, accumulators + i * sizeof(sum), sizeof(sum));
    if (!reduce::binned_valid(sum)) {
      return {TUTTI_INVALID, "accumulator " + std::to_string(i) +
                                 " holds what no sum does; zeroed memory is an empty one"};
    }
    const uint64_t pattern = reduce::binned_round(sum, format);
    std::memcpy(out + i * size, &pattern, size);
  }
  return {};
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_reduce_local(const void* const* operands, size_t n, void* out, size_t count,
                                tutti_dtype dtype, tutti_op op, tutti_level level) {
  return api::guarded(
      [&]() -> Status { return api::reduce_local(operands, n, out, count, dtype, op, level); });
}

tutti_status tutti_binned_deposit(void* accumulators, tutti_dtype accumulator, const void* values,
                                  size_t count, tutti_dtype dtype) {
  return api::deposit(accumulators, accumulator, values, count, dtype, false);
}

tutti_status tutti_binned_deposit_all(void* accumulator_place, tutti_dtype accumulator,
                                      const void* values, size_t count, tutti_dtype dtype) {
  return api::deposit(accumulator_place, accumulator, values, count, dtype, true);
}

tutti_status tutti_binned_finish(const void* accumulators, tutti_dtype accumulator, void* out,
                                 size_t count, tutti_dtype dtype) {
  return api::guarded([&]() -> Status {
    TUTTI_TRY(api::check_binned(accumulators, accumulator, out, count, dtype));
    const auto* from = static_cast<const std::byte*>(accumulators);
    auto* to = static_cast<std::byte*>(out);
    if (accumulator == TUTTI_BINNED_FLOAT32) {
      return api::finish<api::BinnedFloat32>(from, to, count, dtype);
    }
    return api::finish<api::BinnedFloat64>(from, to, count, dtype);
  });
}

}  // extern "C"
