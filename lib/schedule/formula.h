// Formulas of the number of ranks, as algorithms state their costs: one text for the reader and for
// the test that compares it with the prover's counts.
//
// Numbers, + - * / ^ and parentheses; what stands side by side is multiplied, from left to
// right with * and /: "2(p-1)/p". Names: p the number of ranks, L = ceil(log2 p), l = floor(log2
// p), M = ceil(log2(p-1)) and 0 for p = 1, q = 2^l, e = p - q, h = ceil(p/2), s the ones among the
// binary digits of 1, 2, ..., p-1. [x>y] is 1 if x > y, else 0.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/status.h"
#include "lib/schedule/rational.h"

namespace tutti::schedule {

// INVALID, saying what was expected where, if the text is no formula or divides by zero.
Status evaluate(std::string_view formula, uint32_t nranks, Rational* out);

}  // namespace tutti::schedule
