// The operators as the contract words them, one element at a time, in plain C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::reference {

// The bit patterns of one element, widened to 128 bits.
__extension__ using Bits = unsigned __int128;

// Under a sanitizer or emulation tests repeat themselves less: every length and every number of
// operands still, but not with each kind of values and stores; these take turns.
#ifdef TUTTI_SLOW
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

// The left fold of the operands' bits, in order.
Bits fold(tutti_dtype dtype, tutti_op op, std::span<const Bits> operands);
Bits fold(tutti_dtype dtype, tutti_op op, Bits left, Bits right);

// The last step of an average.
Bits divide(tutti_dtype dtype, Bits value, uint32_t divisor);

// "3c00", for a message.
std::string hex(Bits bits);

// Patterns at which the types' behaviour changes.
std::vector<Bits> edge_values(tutti_dtype dtype);

}  // namespace tutti::reference
