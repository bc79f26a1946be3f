#include "lib/adapters/mpi/types.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::mpi {

constinit thread_local LastAnswers last_answers [[gnu::tls_model("initial-exec")]];

namespace {

// Handles are small integers or addresses: found by a multiplication and, mostly, one look.
template <class Handle, class Value, size_t places>
class Table {
 public:
  Value* add(Handle handle) {
    for (size_t i = place(handle);; i = (i + 1) % places) {
      if (used_[i]) continue;
      used_[i] = true;
      handles_[i] = handle;
      return &values_[i];
    }
  }
  Value* find(Handle handle) {
    for (size_t i = place(handle); used_[i]; i = (i + 1) % places) {
      if (handles_[i] == handle) return &values_[i];
    }
    return nullptr;
  }

 private:
  static size_t place(Handle handle) {
    uint64_t bits = 0;
    if constexpr (std::is_pointer_v<Handle>)
      bits = reinterpret_cast<uintptr_t>(handle);
    else
      bits = uint32_t(handle);
    return size_t((bits * 0x9e3779b97f4a7c15u) >> 40) % places;
  }
  std::array<bool, places> used_{};
  std::array<Handle, places> handles_{};
  std::array<Value, places> values_{};
};

// Of a named type all is known but what the host is asked when the type is first used: optional
// types may be unknown to it.
struct Named {
  Kind kind = Kind::other;
  bool is_signed = false;
  std::atomic<bool> asked{false};
  Type type;
};

Table<MPI_Datatype, Named, 256> named_types;
Table<MPI_Op, tutti_op, 64> named_ops;
std::mutex named_mutex;

// Elements that the host reduces, by size; and the two operators.
std::mutex dtypes_mutex;
std::unordered_map<size_t, tutti_dtype> dtypes_by_size;
tutti_op host_ops[2];  // not commutative, commutative

[[gnu::tls_model("initial-exec")]] thread_local HostOperator::Current current;

// out = lower op higher. The host has inout = in op inout.
void reduce_by_host(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
                    void*) {
  const HostOperator::Current now = current;
  const size_t bytes = count * size_t(now.extent);
  thread_local std::vector<char> result;
  void* inout = out;
  if (out == lower) {
    result.assign(static_cast<const char*>(higher), static_cast<const char*>(higher) + bytes);
    inout = result.data();
  } else if (out != higher) {
    std::memcpy(out, higher, bytes);
  }
  const char* in = static_cast<const char*>(lower);
  char* to = static_cast<char*>(inout);
  for (size_t left = count; left > 0;) {
    const int now_count = int(std::min(left, size_t{INT_MAX}));
    if (PMPI_Reduce_local(in, to, now_count, now.type, now.op) != MPI_SUCCESS)
      throw std::runtime_error("MPI_Reduce_local failed");
    in += now_count * now.extent;
    to += now_count * now.extent;
    left -= size_t(now_count);
  }
  if (inout != out) std::memcpy(out, inout, bytes);
}

// These are not made by derivation, nor freed.
bool is_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

// Elements of these are their data in its order: named types, and copies of one after the other.
bool in_order(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS)
    return false;
  if (is_predefined(combiner)) return true;
  if (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) return false;
  // Of both there is one type, and at most one integer.
  int of_integers[1] = {};
  MPI_Aint of_addresses[1] = {};
  MPI_Datatype of_types[1] = {};
  if (types != 1 || integers > 1 || addresses != 0 ||
      PMPI_Type_get_contents(type, integers, addresses, types, of_integers, of_addresses,
                             of_types) != MPI_SUCCESS)
    return false;
  const bool below = in_order(of_types[0]);
  PMPI_Type_get_envelope(of_types[0], &integers, &addresses, &types, &combiner);
  if (!is_predefined(combiner)) PMPI_Type_free(&of_types[0]);
  return below;
}

bool ask(MPI_Datatype type, Type* out) {
  MPI_Count size = 0;
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0 ||
      PMPI_Type_get_extent(type, &lower, &extent) != MPI_SUCCESS ||
      PMPI_Type_get_true_extent(type, &true_lower, &true_extent) != MPI_SUCCESS)
    return false;
  out->size = size_t(size);
  out->extent = extent;
  const bool dense = size > 0 && extent == size && lower == 0 && true_lower == 0;
  out->whole = dense && true_extent == extent;
  out->contiguous = out->whole && in_order(type);
  return true;
}

tutti_dtype integer_of(size_t size, bool is_signed, bool* known) {
  *known = true;
  switch (size) {
    case 1:
      return is_signed ? TUTTI_INT8 : TUTTI_UINT8;
    case 2:
      return is_signed ? TUTTI_INT16 : TUTTI_UINT16;
    case 4:
      return is_signed ? TUTTI_INT32 : TUTTI_UINT32;
    case 8:
      return is_signed ? TUTTI_INT64 : TUTTI_UINT64;
    default:
      *known = false;
      return TUTTI_UINT8;
  }
}

void find_dtype(Kind kind, bool is_signed, Type* type) {
  type->kind = kind;
  switch (kind) {
    case Kind::integer:
    case Kind::logical:
      type->dtype = integer_of(type->size, is_signed, &type->has_dtype);
      break;
    case Kind::byte:
      type->dtype = TUTTI_UINT8;
      type->has_dtype = type->size == 1;
      break;
    case Kind::floating:
      type->has_dtype = type->size == 4 || type->size == 8;
      type->dtype = type->size == 4 ? TUTTI_FLOAT32 : TUTTI_FLOAT64;
      break;
    case Kind::complex:
      type->has_dtype = type->size == 8 || type->size == 16;
      type->dtype = type->size == 8 ? TUTTI_COMPLEX64 : TUTTI_COMPLEX128;
      break;
    case Kind::pair:
    case Kind::other:
      break;
  }
}

// What the standard defines (MPI 4.1, 6.9.2), which the host may extend.
bool defined_on(tutti_op op, Kind kind) {
  switch (op) {
    case TUTTI_MAX:
    case TUTTI_MIN:
      return kind == Kind::integer || kind == Kind::floating;
    case TUTTI_SUM:
    case TUTTI_PROD:
      return kind == Kind::integer || kind == Kind::floating || kind == Kind::complex;
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR:
      return kind == Kind::integer || kind == Kind::logical;
    case TUTTI_BAND:
    case TUTTI_BOR:
    case TUTTI_BXOR:
      return kind == Kind::integer || kind == Kind::byte;
    case TUTTI_MINLOC:
    case TUTTI_MAXLOC:
      return kind == Kind::pair;
    default:
      return false;
  }
}

bool dtype_of_size(size_t size, tutti_dtype* out) {
  const std::lock_guard lock(dtypes_mutex);
  const auto known = dtypes_by_size.find(size);
  if (known != dtypes_by_size.end()) {
    *out = known->second;
    return true;
  }
  if (tutti_dtype_create(size, "MPI datatype", out) != TUTTI_OK) return false;
  dtypes_by_size.emplace(size, *out);
  return true;
}

void name(MPI_Datatype type, Kind kind, bool is_signed = false) {
  if (type == MPI_DATATYPE_NULL || named_types.find(type) != nullptr) return;
  Named* const named = named_types.add(type);
  named->kind = kind;
  named->is_signed = is_signed;
}

}  // namespace

bool learn_types() {
  for (const MPI_Datatype type :
       {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
        MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1,
        MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8})
    name(type, Kind::integer, true);
  for (const MPI_Datatype type :
       {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
        MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T})
    name(type, Kind::integer);
  for (const MPI_Datatype type : {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL,
                                  MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8})
    name(type, Kind::floating);
  for (const MPI_Datatype type :
       {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_COMPLEX,
        MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16})
    name(type, Kind::complex);
  name(MPI_C_BOOL, Kind::logical);
  name(MPI_LOGICAL, Kind::logical, true);
  name(MPI_BYTE, Kind::byte);
  for (const MPI_Datatype type :
       {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
        MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER})
    name(type, Kind::pair);
  const struct {
    MPI_Op host;
    tutti_op own;
  } ops[] = {
      {MPI_SUM, TUTTI_SUM},          {MPI_PROD, TUTTI_PROD},      {MPI_MIN, TUTTI_MIN},
      {MPI_MAX, TUTTI_MAX},          {MPI_LAND, TUTTI_LAND},      {MPI_LOR, TUTTI_LOR},
      {MPI_LXOR, TUTTI_LXOR},        {MPI_BAND, TUTTI_BAND},      {MPI_BOR, TUTTI_BOR},
      {MPI_BXOR, TUTTI_BXOR},        {MPI_MINLOC, TUTTI_MINLOC},  {MPI_MAXLOC, TUTTI_MAXLOC},
      {MPI_REPLACE, TUTTI_OP_COUNT}, {MPI_NO_OP, TUTTI_OP_COUNT}, {MPI_OP_NULL, TUTTI_OP_COUNT}};
  for (const auto& op : ops) *named_ops.add(op.host) = op.own;
  for (int commutative : {0, 1}) {
    if (tutti_op_create(reduce_by_host, nullptr, commutative, &host_ops[commutative]) != TUTTI_OK)
      return false;
  }
  return true;
}

bool is_predefined(MPI_Datatype type) { return named_types.find(type) != nullptr; }

const Type* find_type(MPI_Datatype type, DerivedType* derived) {
  if (Named* const named = named_types.find(type)) [[likely]] {
    if (!named->asked.load(std::memory_order_acquire)) {
      const std::lock_guard lock(named_mutex);
      if (!named->asked.load(std::memory_order_relaxed)) {
        if (!ask(type, &named->type)) return nullptr;
        find_dtype(named->kind, named->is_signed, &named->type);
        named->asked.store(true, std::memory_order_release);
      }
    }
    last_answers.type = type;
    last_answers.known = &named->type;
    return &named->type;
  }
  if (type == MPI_DATATYPE_NULL) return nullptr;
  return derived->find(type);
}

const Type* DerivedType::find(MPI_Datatype type) {
  if (!ask(type, &known_)) return nullptr;
  in_use_.begin(type);
  return &known_;
}

Reduction find_reduction(const Type& type, MPI_Op op) {
  using By = Reduction::By;
  Reduction out;
  By by = By::host;
  bool commutative = true;
  if (const tutti_op* const own = named_ops.find(op)) {
    if (*own == TUTTI_OP_COUNT || !defined_on(*own, type.kind)) return out;
    if (type.has_dtype) {
      LastAnswers& last = last_answers;
      last.reduced = &type;
      last.op = op;
      return last.reduction = {By::tutti, type.dtype, *own};
    }
  } else {
    int says = 0;
    if (PMPI_Op_commutative(op, &says) != MPI_SUCCESS) return out;
    commutative = says != 0;
    by = By::program;
    if (!type.whole) return out;
  }
  // Pairs have gaps between value and index, which nobody reads.
  if (type.extent <= 0 || type.extent > TUTTI_DTYPE_MOST_BYTES ||
      !dtype_of_size(size_t(type.extent), &out.dtype))
    return out;
  out.by = by;
  out.op = host_ops[commutative ? 1 : 0];
  return out;
}

HostOperator::HostOperator(MPI_Op op, MPI_Datatype type, ptrdiff_t extent)
    : outer_(std::exchange(current, {op, type, extent})) {
  if (named_ops.find(op) == nullptr) in_use_.begin(op);
}

HostOperator::~HostOperator() { current = outer_; }

}  // namespace tutti::mpi
