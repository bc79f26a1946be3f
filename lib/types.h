// Element types and operators by number and by name: the one table behind the C API, the programs
// and the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/status.h"
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

// Bytes of one element, 0 for an unknown type.
size_t dtype_size(tutti_dtype dtype);
DtypeKind dtype_kind(tutti_dtype dtype);  // none for an unknown type and for the program's own
bool dtype_is_float(tutti_dtype dtype);   // not for complex numbers
bool dtype_is_signed(tutti_dtype dtype);  // true for floats and complex numbers
bool dtype_is_binned(tutti_dtype dtype);  // an accumulator, of which there are only sums

// "float32", "sum"; nullptr for an unknown number. Static storage, but for the program's own types:
// until they are freed.
const char* dtype_name(tutti_dtype dtype);
const char* op_name(tutti_op op);

// The inverse of the header's names. INVALID, with the names that are allowed, for any other text.
Status dtype_from_name(std::string_view name, tutti_dtype* out);
Status op_from_name(std::string_view name, tutti_op* out);

// "canonical"; nullptr and INVALID as above.
const char* level_name(tutti_level level);
Status level_from_name(std::string_view name, tutti_level* out);

// Whether the operator is defined on the type: logical and bitwise ones are on integers and bool,
// min and max not on complex numbers, avg not on bool, minloc and maxloc on values with an index,
// which have no others, and of binned accumulators there are only sums. The program's functions are
// on all types, its own types have nothing else. False when either is unknown.
bool op_supports(tutti_op op, tutti_dtype dtype);
// Whether operands may change places.
bool op_commutes(tutti_op op);

}  // namespace tutti
