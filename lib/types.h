// Element types and operators by number and by name: the one table behind the C API, the programs
// and the kernels.
#pragma once

#include <cstddef>
#include <string_view>

#include "lib/status.h"
#include "tutti/tutti.h"

namespace tutti {

// Whether the number is one of the header's.
bool dtype_known(tutti_dtype dtype);
bool op_known(tutti_op op);

// Bytes of one element, 0 for an unknown type.
size_t dtype_size(tutti_dtype dtype);
bool dtype_is_float(tutti_dtype dtype);
bool dtype_is_signed(tutti_dtype dtype);  // true for floats

bool dtype_is_binned(tutti_dtype dtype);  // an accumulator, of which there are only sums

// "float32", "sum"; nullptr for an unknown number; static storage.
const char* dtype_name(tutti_dtype dtype);
const char* op_name(tutti_op op);

// The inverse of the names. INVALID, with the names that are allowed, for any other text.
Status dtype_from_name(std::string_view name, tutti_dtype* out);
Status op_from_name(std::string_view name, tutti_op* out);

// "canonical"; nullptr and INVALID as above.
const char* level_name(tutti_level level);
Status level_from_name(std::string_view name, tutti_level* out);

// Whether the operator is defined on the type: logical and bitwise ones are on integers only, of
// binned accumulators there are only sums. False when either is unknown.
bool op_supports(tutti_op op, tutti_dtype dtype);

}  // namespace tutti
