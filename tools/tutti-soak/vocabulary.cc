#include "tools/tutti-soak/vocabulary.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "bench/oracle.h"
#include "tools/tutti-soak/random.h"

namespace tutti::soak {
namespace {

constexpr size_t own_sizes[] = {3, 8, 12, 24, 100, TUTTI_DTYPE_MOST_BYTES};

void require(tutti_status status, const char* what) {
  if (status != TUTTI_OK) throw std::runtime_error(std::string(what) + ": " + tutti_last_error());
}

// Sums of bytes: commutative.
void add_bytes(const void* lower, const void* higher, void* out, size_t count, tutti_dtype dtype,
               void*) {
  const auto* a = static_cast<const uint8_t*>(lower);
  const auto* b = static_cast<const uint8_t*>(higher);
  auto* c = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < count * tutti_dtype_size(dtype); ++i) c[i] = uint8_t(a[i] + b[i]);
}

// A pair of bytes (a, b) is the map x -> ax + b; composition of maps is associative and not
// commutative. A byte that is left over is summed.
void compose(const void* lower, const void* higher, void* out, size_t count, tutti_dtype dtype,
             void*) {
  const auto* f = static_cast<const uint8_t*>(lower);
  const auto* g = static_cast<const uint8_t*>(higher);
  auto* h = static_cast<uint8_t*>(out);
  const size_t size = tutti_dtype_size(dtype);
  for (size_t at = 0; at < count * size; at += size) {
    for (size_t i = at; i + 1 < at + size; i += 2) {
      const uint8_t b = uint8_t(g[i] * f[i + 1] + g[i + 1]);
      h[i] = uint8_t(g[i] * f[i]);
      h[i + 1] = b;
    }
    if (size % 2 == 1) h[at + size - 1] = uint8_t(f[at + size - 1] + g[at + size - 1]);
  }
}

// The same, but a rank may sleep in it while others already have their results.
void compose_late(const void* lower, const void* higher, void* out, size_t count, tutti_dtype dtype,
                  void* context) {
  static thread_local Random random{uint64_t(gettid())};
  if (random.chance(300)) usleep(useconds_t(random.below(500)));
  compose(lower, higher, out, count, dtype, context);
  if (random.chance(20)) usleep(useconds_t(random.below(500)));
}

}  // namespace

const Vocabulary& Vocabulary::get() {
  static const Vocabulary one;
  return one;
}

void Vocabulary::add_operator(tutti_op_fn function, void* context, bool commutative,
                              const char* name) {
  tutti_op op{};
  require(tutti_op_create(function, context, commutative, &op), "tutti_op_create");
  operators_.push_back({op, function, name});
}

Vocabulary::Vocabulary() {
  for (int i = 0; i < TUTTI_DTYPE_COUNT; ++i) {
    const size_t size = tutti_dtype_size(tutti_dtype(i));
    types_.push_back({tutti_dtype(i), size, std::min<size_t>(size, 8)});
  }
  for (const size_t size : own_sizes) {
    tutti_dtype dtype{};
    require(tutti_dtype_create(size, ("bytes" + std::to_string(size)).c_str(), &dtype),
            "tutti_dtype_create");
    types_.push_back({dtype, size, 1});
  }
  for (int i = 0; i < TUTTI_OP_COUNT; ++i)
    operators_.push_back({tutti_op(i), nullptr, tutti_op_name(tutti_op(i))});
  add_operator(add_bytes, nullptr, true, "add_bytes");
  add_operator(compose, nullptr, false, "compose");
  add_operator(compose_late, nullptr, false, "compose_late");

  for (size_t type = 0; type < types_.size(); ++type) {
    for (size_t op = 0; op < operators_.size(); ++op) {
      const tutti_dtype dtype = types_[type].dtype;
      // Results of bool are 0 or 1, whatever the program's own operators make of bytes.
      if (operators_[op].function ? dtype == TUTTI_BOOL
                                  : !tutti_op_supports(operators_[op].op, dtype))
        continue;
      pairs_.emplace_back(type, op);
      if (op == TUTTI_SUM && (dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT64 ||
                              dtype == TUTTI_BFLOAT16 || dtype == TUTTI_INT32))
        frequent_.emplace_back(type, op);
    }
  }
  tutti_algorithm_info info{};
  info.size = sizeof info;
  for (size_t i = 0; tutti_algorithm_get(i, &info) == TUTTI_OK; ++i)
    algorithms_[info.collective].push_back(info.name);
}

const std::vector<const char*>& Vocabulary::algorithms(const std::string& collective) const {
  static const std::vector<const char*> none;
  const auto found = algorithms_.find(collective);
  return found == algorithms_.end() ? none : found->second;
}

}  // namespace tutti::soak
