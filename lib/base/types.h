// Element types and operators by number and by name: the one table behind the C API, the programs
// and the kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti {

// Whether the number is one of the header's, or of the program's own making and not yet freed.
bool dtype_known(tutti_dtype dtype);
bool op_known(tutti_op op);

// What arithmetic a type has.
enum class DtypeKind : uint8_t {
  none,
  signed_integer,
  unsigned_integer,
  floating,
  complex,
  boolean,
  located,  // a value and its index
  binned,   // accumulators
};

// The built-in ones.
namespace builtin {

using Kind = DtypeKind;
struct Type {
  tutti_dtype dtype;
  const char* name;
  uint8_t size;  // bytes
  Kind kind;
};
// In the order of their numbers. A new one is a row here, a number in tutti.h and its kernels.
inline constexpr Type types[] = {
    {TUTTI_INT8, "int8", 1, Kind::signed_integer},
    {TUTTI_INT16, "int16", 2, Kind::signed_integer},
    {TUTTI_INT32, "int32", 4, Kind::signed_integer},
    {TUTTI_INT64, "int64", 8, Kind::signed_integer},
    {TUTTI_UINT8, "uint8", 1, Kind::unsigned_integer},
    {TUTTI_UINT16, "uint16", 2, Kind::unsigned_integer},
    {TUTTI_UINT32, "uint32", 4, Kind::unsigned_integer},
    {TUTTI_UINT64, "uint64", 8, Kind::unsigned_integer},
    {TUTTI_FLOAT16, "float16", 2, Kind::floating},
    {TUTTI_BFLOAT16, "bfloat16", 2, Kind::floating},
    {TUTTI_FLOAT32, "float32", 4, Kind::floating},
    {TUTTI_FLOAT64, "float64", 8, Kind::floating},
    {TUTTI_COMPLEX64, "complex64", 8, Kind::complex},
    {TUTTI_COMPLEX128, "complex128", 16, Kind::complex},
    {TUTTI_FLOAT8_E4M3, "float8_e4m3", 1, Kind::floating},
    {TUTTI_FLOAT8_E5M2, "float8_e5m2", 1, Kind::floating},
    {TUTTI_BOOL, "bool", 1, Kind::boolean},
    {TUTTI_FLOAT32_INT32, "float32_int32", 8, Kind::located},
    {TUTTI_FLOAT64_INT64, "float64_int64", 16, Kind::located},
    {TUTTI_INT32_INT32, "int32_int32", 8, Kind::located},
    {TUTTI_INT64_INT64, "int64_int64", 16, Kind::located},
    {TUTTI_BINNED_FLOAT32, "binned_float32", 32, Kind::binned},
    {TUTTI_BINNED_FLOAT64, "binned_float64", 64, Kind::binned},
};
static_assert(std::size(types) == TUTTI_DTYPE_COUNT);

// One field of all rows, densely packed, because every call reads it.
template <auto field>
consteval auto column() {
  std::array<std::remove_cvref_t<decltype(types[0].*field)>, TUTTI_DTYPE_COUNT> values{};
  for (size_t i = 0; i < TUTTI_DTYPE_COUNT; ++i) {
    if (types[i].dtype != i) throw "not in the order of their numbers";
    values[i] = types[i].*field;
  }
  return values;
}
inline constexpr auto names = column<&Type::name>();
inline constexpr auto sizes = column<&Type::size>();
inline constexpr auto kinds = column<&Type::kind>();

constexpr uint32_t bit(Kind kind) { return uint32_t{1} << uint32_t(kind); }
inline constexpr uint32_t integers = bit(Kind::signed_integer) | bit(Kind::unsigned_integer);
inline constexpr uint32_t numbers = integers | bit(Kind::floating);
inline constexpr uint32_t truths = integers | bit(Kind::boolean);
// The kinds of types on which an operator is defined, indexed by tutti_op.
inline constexpr uint32_t operands[TUTTI_OP_COUNT] = {
    numbers | bit(Kind::complex) | bit(Kind::boolean) | bit(Kind::binned),  // sum
    numbers | bit(Kind::complex) | bit(Kind::boolean),                      // prod
    numbers | bit(Kind::boolean),                                           // min
    numbers | bit(Kind::boolean),                                           // max
    numbers | bit(Kind::complex),                                           // avg
    truths,                                                                 // land
    truths,                                                                 // lor
    truths,                                                                 // lxor
    truths,                                                                 // band
    truths,                                                                 // bor
    truths,                                                                 // bxor
    bit(Kind::located),                                                     // minloc
    bit(Kind::located)};                                                    // maxloc

}  // namespace builtin

// The size in bytes of one of the header's types.
constexpr size_t builtin_size(tutti_dtype dtype) { return builtin::sizes[dtype]; }
// False unless both are the header's.
constexpr bool builtin_supports(tutti_op op, tutti_dtype dtype) {
  return static_cast<unsigned>(op) < TUTTI_OP_COUNT &&
         static_cast<unsigned>(dtype) < TUTTI_DTYPE_COUNT &&
         (builtin::operands[op] & builtin::bit(builtin::kinds[dtype])) != 0;
}

// Whether results are 0 or 1 whatever the operands are.
constexpr bool gives_truth(tutti_op op, tutti_dtype dtype) {
  return op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR || dtype == TUTTI_BOOL;
}

// Whether the bits of a result depend on how its operands are bracketed.
bool op_rounds(tutti_op op, tutti_dtype dtype);

// Bytes of one element, 0 for an unknown type.
size_t dtype_size(tutti_dtype dtype);
DtypeKind dtype_kind(tutti_dtype dtype);  // none for an unknown type and for the program's own
bool dtype_is_float(tutti_dtype dtype);   // not for complex numbers
bool dtype_is_signed(tutti_dtype dtype);  // true for floats and complex numbers
bool dtype_is_binned(tutti_dtype dtype);  // an accumulator, of which there are only sums

// "float32", "sum"; nullptr for an unknown number. Static storage; for the program's own types
// valid until they are freed.
const char* dtype_name(tutti_dtype dtype);
const char* op_name(tutti_op op);

// The inverse of the header's names. INVALID, with the names that are allowed, for any other text.
Status dtype_from_name(std::string_view name, tutti_dtype* out);
Status op_from_name(std::string_view name, tutti_op* out);

// "canonical"; nullptr and INVALID as above.
const char* level_name(tutti_level level);
Status level_from_name(std::string_view name, tutti_level* out);

// Whether the operator is defined on the type: logical and bitwise ones are on integers and bool,
// min and max not on complex numbers, avg not on bool. Values with an index have only minloc and
// maxloc, binned accumulators only sums. The program's functions are defined on all types; its own
// types have no other operators. False when either is unknown.
bool op_supports(tutti_op op, tutti_dtype dtype);
// Whether the operator is commutative.
bool op_commutes(tutti_op op);

}  // namespace tutti
