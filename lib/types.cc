#include "lib/types.h"

#include <cstdint>
#include <string>

namespace tutti {
namespace {

enum class Kind : uint8_t { signed_integer, unsigned_integer, floating, binned };

struct Type {
  const char* name;
  uint8_t size;
  Kind kind;
};

// Indexed by tutti_dtype.
constexpr Type kTypes[] = {
    {"int8", 1, Kind::signed_integer},     {"int16", 2, Kind::signed_integer},
    {"int32", 4, Kind::signed_integer},    {"int64", 8, Kind::signed_integer},
    {"uint8", 1, Kind::unsigned_integer},  {"uint16", 2, Kind::unsigned_integer},
    {"uint32", 4, Kind::unsigned_integer}, {"uint64", 8, Kind::unsigned_integer},
    {"float16", 2, Kind::floating},        {"bfloat16", 2, Kind::floating},
    {"float32", 4, Kind::floating},        {"float64", 8, Kind::floating},
    {"binned_float32", 32, Kind::binned},  {"binned_float64", 64, Kind::binned},
};
static_assert(sizeof(kTypes) / sizeof(kTypes[0]) == TUTTI_DTYPE_COUNT);

struct Operator {
  const char* name;
  bool integers_only;
};

// Indexed by tutti_op.
constexpr Operator kOperators[] = {
    {"sum", false}, {"prod", false}, {"min", false}, {"max", false}, {"avg", false}, {"land", true},
    {"lor", true},  {"lxor", true},  {"band", true}, {"bor", true},  {"bxor", true},
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
bool dtype_known(tutti_dtype dtype) { return static_cast<unsigned>(dtype) < TUTTI_DTYPE_COUNT; }
bool op_known(tutti_op op) { return static_cast<unsigned>(op) < TUTTI_OP_COUNT; }

size_t dtype_size(tutti_dtype dtype) { return dtype_known(dtype) ? kTypes[dtype].size : 0; }

bool dtype_is_float(tutti_dtype dtype) {
  return dtype_known(dtype) && kTypes[dtype].kind == Kind::floating;
}

bool dtype_is_signed(tutti_dtype dtype) {
  return dtype_known(dtype) &&
         (kTypes[dtype].kind == Kind::signed_integer || kTypes[dtype].kind == Kind::floating);
}

bool dtype_is_binned(tutti_dtype dtype) {
  return dtype_known(dtype) && kTypes[dtype].kind == Kind::binned;
}

const char* dtype_name(tutti_dtype dtype) {
  return dtype_known(dtype) ? kTypes[dtype].name : nullptr;
}

const char* op_name(tutti_op op) { return op_known(op) ? kOperators[op].name : nullptr; }

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
  if (dtype_is_binned(dtype)) return op == TUTTI_SUM;
  return op_known(op) && dtype_known(dtype) &&
         !(kOperators[op].integers_only && dtype_is_float(dtype));
}

}  // namespace tutti
