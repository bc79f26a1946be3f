#include "lib/reduce/reduce.h"

#include <atomic>
#include <string>
#include <vector>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "hwy/targets.h"
#include "lib/base/types.h"
#include "lib/reduce/binned.h"
#include "lib/reduce/families.h"

namespace tutti {
namespace {

using reduce::Target;

std::span<const Target> family_of(tutti_dtype dtype) {
  const size_t size = dtype_size(dtype);
  switch (dtype_kind(dtype)) {
    case DtypeKind::floating:
      if (size == 1) return reduce::float8_targets();
      return size == 2 ? reduce::half_targets() : reduce::float_targets();
    case DtypeKind::complex:
      return reduce::complex_targets();
    case DtypeKind::located:
      return reduce::located_targets();
    default:
      return size <= 2 ? reduce::narrow_targets() : reduce::wide_targets();
  }
}

// Whether this processor and its system have what the kernels of a target are compiled to.
// Highway's SupportedTargets() says the same, but is in a library that times its clock for 3 ms as
// it is loaded.
#ifdef __x86_64__
bool is_supported(int64_t target) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool sse4 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw");
  return target == HWY_AVX3 ? avx512 : target == HWY_AVX2 ? avx2 : target == HWY_SSE4 && sse4;
}
#else
bool is_supported(int64_t target) { return (target & hwy::SupportedTargets()) != 0; }
#endif

// The compiled instruction sets that this processor has, as positions in each family's list.
struct Usable {
  std::vector<size_t> positions;
  std::vector<const char*> names;
};

const Usable& usable() {
  static const Usable usable = [] {
    Usable result;
    const std::span<const Target> targets = reduce::float_targets();
    for (size_t i = 0; i < targets.size(); ++i) {
      // The last one is the baseline of the build: it runs wherever the program does.
      if (i + 1 != targets.size() && !is_supported(targets[i].bit)) continue;
      result.positions.push_back(i);
      result.names.push_back(targets[i].name);
    }
    return result;
  }();
  return usable;
}

// Index into usable(); 0 is the best.
std::atomic<size_t> chosen{0};

// The name's index into usable(); the size of usable() if it is not there.
size_t find_target(std::string_view name) {
  const Usable& all = usable();
  size_t i = 0;
  while (i < all.names.size() && name != all.names[i]) ++i;
  return i;
}

Kernels kernels_of(tutti_dtype dtype, tutti_op op, size_t index) {
  if (unsigned(op) >= TUTTI_OP_COUNT || !op_supports(op, dtype)) return {};
  if (dtype_is_binned(dtype)) return reduce::binned_kernels(dtype);
  return family_of(dtype)[usable().positions[index]].kernels(dtype, op);
}

}  // namespace

Kernels find_kernels(tutti_dtype dtype, tutti_op op) {
  return kernels_of(dtype, op, chosen.load(std::memory_order_relaxed));
}

Kernels find_kernels(tutti_dtype dtype, tutti_op op, std::string_view target) {
  const size_t index = find_target(target);
  return index < usable().names.size() ? kernels_of(dtype, op, index) : Kernels{};
}

Status find_kernels(tutti_dtype dtype, tutti_op op, tutti_level level, Kernels* out) {
  *out = find_kernels(dtype, op);
  if (level == TUTTI_LEVEL_CANONICAL) out->reduce_fn = out->reduce_canonical;
  if (level == TUTTI_LEVEL_EXACT) out->reduce_fn = out->reduce_exact;
  if (out->reduce_fn != nullptr) return {};
  return {TUTTI_UNSUPPORTED, std::string("operator ") + op_name(op) + " on " + dtype_name(dtype) +
                                 " has no form at level " + level_name(level)};
}

std::span<const char* const> reduce_target_names() { return usable().names; }

const char* reduce_target_name() { return usable().names[chosen.load(std::memory_order_relaxed)]; }

Status reduce_target_force(std::string_view name) {
  const size_t index = find_target(name);
  if (index == usable().names.size()) {
    std::string allowed;
    for (const char* known : usable().names)
      allowed += (allowed.empty() ? "" : ", ") + std::string(known);
    return {TUTTI_INVALID, "unknown instruction set \"" + std::string(name) +
                               "\" for reductions; here: " + allowed};
  }
  chosen.store(index, std::memory_order_relaxed);
  return {};
}

}  // namespace tutti
