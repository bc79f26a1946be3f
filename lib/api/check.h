// Checks of arguments that several functions of the C API have in common; in collectives.cc.
#pragma once

#include <cstdint>

#include "lib/status.h"
#include "tutti/tutti.h"

namespace tutti::api {

// Everything that is wrong with a vector whatever is done with it.
Status check_vector(uint64_t count, tutti_dtype dtype);

// Whether the operator is one and the type, which is one, has it.
Status check_operator(tutti_op op, tutti_dtype dtype);

}  // namespace tutti::api
