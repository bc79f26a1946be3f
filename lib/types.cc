#include "lib/types.h"

#include <cstdint>
#include <string>

#include "lib/user_types.h"

namespace tutti {
namespace {

using Kind = DtypeKind;

struct Type {
  const char* name;
  uint8_t size;
  Kind kind;
};

// Indexed by tutti_dtype.
constexpr Type kTypes[] = {
    {"int8", 1, Kind::signed_integer},
    {"int16", 2, Kind::signed_integer},
    {"int32", 4, Kind::signed_integer},
    {"int64", 8, Kind::signed_integer},
    {"uint8", 1, Kind::unsigned_integer},
    {"uint16", 2, Kind::unsigned_integer},
    {"uint32", 4, Kind::unsigned_integer},
    {"uint64", 8, Kind::unsigned_integer},
    {"float16", 2, Kind::floating},
    {"bfloat16", 2, Kind::floating},
    {"float32", 4, Kind::floating},
    {"float64", 8, Kind::floating},
    {"complex64", 8, Kind::complex},
    {"complex128", 16, Kind::complex},
    {"float8_e4m3", 1, Kind::floating},
    {"float8_e5m2", 1, Kind::floating},
    {"bool", 1, Kind::boolean},
    {"float32_int32", 8, Kind::located},
    {"float64_int64", 16, Kind::located},
    {"int32_int32", 8, Kind::located},
    {"int64_int64", 16, Kind::located},
    {"binned_float32", 32, Kind::binned},
    {"binned_float64", 64, Kind::binned},
};
static_assert(sizeof(kTypes) / sizeof(kTypes[0]) == TUTTI_DTYPE_COUNT);

constexpr unsigned bit(Kind kind) { return 1u << unsigned(kind); }
constexpr unsigned kIntegers = bit(Kind::signed_integer) | bit(Kind::unsigned_integer);
constexpr unsigned kOrdered = kIntegers | bit(Kind::floating);

struct Operator {
  const char* name;
  unsigned kinds;  // on which it is defined
};

// Indexed by tutti_op.
constexpr Operator kOperators[] = {
    {"sum", kOrdered | bit(Kind::complex) | bit(Kind::boolean) | bit(Kind::binned)},
    {"prod", kOrdered | bit(Kind::complex) | bit(Kind::boolean)},
    {"min", kOrdered | bit(Kind::boolean)},
    {"max", kOrdered | bit(Kind::boolean)},
    {"avg", kOrdered | bit(Kind::complex)},
    {"land", kIntegers | bit(Kind::boolean)},
    {"lor", kIntegers | bit(Kind::boolean)},
    {"lxor", kIntegers | bit(Kind::boolean)},
    {"band", kIntegers | bit(Kind::boolean)},
    {"bor", kIntegers | bit(Kind::boolean)},
    {"bxor", kIntegers | bit(Kind::boolean)},
    {"minloc", bit(Kind::located)},
    {"maxloc", bit(Kind::located)},
};
static_assert(sizeof(kOperators) / sizeof(kOperators[0]) == TUTTI_OP_COUNT);

struct Level {
  const char* name;
};

// Indexed by tutti_level.
constexpr Level kLevels[] = {{"default"}, {"fast"}, {"layout"}, {"canonical"}, {"exact"}};
static_assert(sizeof(kLevels) / sizeof(kLevels[0]) == TUTTI_LEVEL_COUNT);

// The position of `name` in the table; INVALID with all its names if it is not there.
template <class Entry, size_t N>
Status find_name(const char* what, const Entry (&table)[N], std::string_view name, size_t* out) {
  std::string allowed;
  for (size_t i = 0; i < N; ++i) {
    if (name == table[i].name) {
      *out = i;
      return {};
    }
    allowed += i == 0 ? "" : ", ";
    allowed += table[i].name;
  }
  return {TUTTI_INVALID,
          "unknown " + std::string(what) + " \"" + std::string(name) + "\"; allowed: " + allowed};
}

}  // namespace

// Through the unsigned value: what a C caller passes may be any int.
static bool in_table(tutti_dtype dtype) { return static_cast<unsigned>(dtype) < TUTTI_DTYPE_COUNT; }
static bool in_table(tutti_op op) { return static_cast<unsigned>(op) < TUTTI_OP_COUNT; }

bool dtype_known(tutti_dtype dtype) { return in_table(dtype) || user_dtype_size(dtype) != 0; }
bool op_known(tutti_op op) { return in_table(op) || user_op_traits(op).alive; }

size_t dtype_size(tutti_dtype dtype) {
  return in_table(dtype) ? kTypes[dtype].size : user_dtype_size(dtype);
}

DtypeKind dtype_kind(tutti_dtype dtype) {
  return in_table(dtype) ? kTypes[dtype].kind : Kind::none;
}

bool dtype_is_float(tutti_dtype dtype) { return dtype_kind(dtype) == Kind::floating; }

bool dtype_is_binned(tutti_dtype dtype) { return dtype_kind(dtype) == Kind::binned; }

bool dtype_is_signed(tutti_dtype dtype) {
  const Kind kind = dtype_kind(dtype);
  return kind == Kind::signed_integer || kind == Kind::floating || kind == Kind::complex;
}

const char* dtype_name(tutti_dtype dtype) {
  return in_table(dtype) ? kTypes[dtype].name : user_dtype_name(dtype);
}

const char* op_name(tutti_op op) {
  if (in_table(op)) return kOperators[op].name;
  const UserOpTraits traits = user_op_traits(op);
  if (!traits.alive) return nullptr;
  return traits.premultiplied ? "premul_sum" : "user";
}

Status dtype_from_name(std::string_view name, tutti_dtype* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("type", kTypes, name, &index));
  *out = static_cast<tutti_dtype>(index);
  return {};
}

Status op_from_name(std::string_view name, tutti_op* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("operator", kOperators, name, &index));
  *out = static_cast<tutti_op>(index);
  return {};
}

const char* level_name(tutti_level level) {
  return static_cast<unsigned>(level) < TUTTI_LEVEL_COUNT ? kLevels[level].name : nullptr;
}

Status level_from_name(std::string_view name, tutti_level* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("level", kLevels, name, &index));
  *out = static_cast<tutti_level>(index);
  return {};
}

bool op_supports(tutti_op op, tutti_dtype dtype) {
  if (in_table(op)) return in_table(dtype) && (kOperators[op].kinds & bit(kTypes[dtype].kind)) != 0;
  const UserOpTraits traits = user_op_traits(op);
  if (traits.premultiplied) return dtype == traits.dtype;
  return traits.alive && dtype_known(dtype);
}

bool op_commutes(tutti_op op) { return in_table(op) || user_op_traits(op).commutative; }

}  // namespace tutti
