// Formulas in the number of ranks, in which algorithms state their costs: one text for the reader
// and for the test that compares it with the prover's counts.
//
// Numbers, + - * / ^ and parentheses. Factors side by side are multiplied, with the precedence of *
// and /, from left to right: "2(p-1)/p". Names: p the number of ranks, L = ceil(log2 p), l =
// floor(log2 p), M = ceil(log2(p-1)) and 0 for p = 1, q = 2^l, e = p - q, h = ceil(p/2), s the
// number of one bits in 1, 2, ..., p-1 together. [x>y] is 1 if x > y, else 0.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/status.h"
#include "lib/schedule/rational.h"

namespace tutti::schedule {

// INVALID, saying what was expected where, if the text is not a formula or divides by zero.
Status evaluate(std::string_view formula, uint32_t nranks, Rational* out);

}  // namespace tutti::schedule
