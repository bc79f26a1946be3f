#include "lib/base/types.h"

#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "lib/base/user_types.h"

namespace tutti {
namespace {

using Kind = DtypeKind;

// Indexed by tutti_op.
constexpr const char* kOperatorNames[] = {"sum",  "prod", "min", "max",  "avg",    "land",  "lor",
                                          "lxor", "band", "bor", "bxor", "minloc", "maxloc"};
static_assert(std::size(kOperatorNames) == TUTTI_OP_COUNT);

// Indexed by tutti_level.
constexpr const char* kLevelNames[] = {"default", "fast", "layout", "canonical", "exact"};
static_assert(std::size(kLevelNames) == TUTTI_LEVEL_COUNT);

// The position of `name` in the table; INVALID with all its names if it is not there.
Status find_name(const char* what, std::span<const char* const> table, std::string_view name,
                 size_t* out) {
  std::string allowed;
  for (size_t i = 0; i < table.size(); ++i) {
    if (name == table[i]) {
      *out = i;
      return {};
    }
    allowed += i == 0 ? "" : ", ";
    allowed += table[i];
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
  return in_table(dtype) ? builtin_size(dtype) : user_dtype_size(dtype);
}

DtypeKind dtype_kind(tutti_dtype dtype) {
  return in_table(dtype) ? builtin::kinds[dtype] : Kind::none;
}

bool dtype_is_float(tutti_dtype dtype) { return dtype_kind(dtype) == Kind::floating; }

bool dtype_is_binned(tutti_dtype dtype) { return dtype_kind(dtype) == Kind::binned; }

bool dtype_is_signed(tutti_dtype dtype) {
  const Kind kind = dtype_kind(dtype);
  return kind == Kind::signed_integer || kind == Kind::floating || kind == Kind::complex;
}

const char* dtype_name(tutti_dtype dtype) {
  return in_table(dtype) ? builtin::names[dtype] : user_dtype_name(dtype);
}

const char* op_name(tutti_op op) {
  if (in_table(op)) return kOperatorNames[op];
  const UserOpTraits traits = user_op_traits(op);
  if (!traits.alive) return nullptr;
  return traits.premultiplied ? "premul_sum" : "user";
}

Status dtype_from_name(std::string_view name, tutti_dtype* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("type", builtin::names, name, &index));
  *out = static_cast<tutti_dtype>(index);
  return {};
}

Status op_from_name(std::string_view name, tutti_op* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("operator", kOperatorNames, name, &index));
  *out = static_cast<tutti_op>(index);
  return {};
}

const char* level_name(tutti_level level) {
  return static_cast<unsigned>(level) < TUTTI_LEVEL_COUNT ? kLevelNames[level] : nullptr;
}

Status level_from_name(std::string_view name, tutti_level* out) {
  size_t index = 0;
  TUTTI_TRY(find_name("level", kLevelNames, name, &index));
  *out = static_cast<tutti_level>(index);
  return {};
}

bool op_supports(tutti_op op, tutti_dtype dtype) {
  if (in_table(op)) return builtin_supports(op, dtype);
  const UserOpTraits traits = user_op_traits(op);
  if (traits.premultiplied) return dtype == traits.dtype;
  return traits.alive && dtype_known(dtype);
}

bool op_rounds(tutti_op op, tutti_dtype dtype) {
  const Kind kind = dtype_kind(dtype);
  const bool inexact = kind == Kind::floating || kind == Kind::complex;
  if (in_table(op)) return inexact && (op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG);
  return inexact || !user_op_traits(op).premultiplied;  // the program's functions may round
}

bool op_commutes(tutti_op op) { return in_table(op) || user_op_traits(op).commutative; }

}  // namespace tutti
