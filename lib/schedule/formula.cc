#include "lib/schedule/formula.h"

#include <bit>
#include <cctype>

namespace tutti::schedule {

namespace {

// The number of one bits in 1, 2, ..., p-1 together.
int64_t ones_below(uint32_t p) {
  int64_t ones = 0;
  for (uint32_t t = 1; t < p; ++t) ones += std::popcount(t);
  return ones;
}

// Recursive descent; after the first error every rule fails. Formulas are the library's own, a line
// long, so the recursion is shallow.
class Parser {
 public:
  Parser(std::string_view text, uint32_t nranks) : text_(text), p_(nranks) {}

  Status parse(Rational* out) {
    *out = sum();
    if (complaint_.empty() && at_ < text_.size()) expected("an operator");
    if (complaint_.empty()) return {};
    return {TUTTI_INVALID, "formula \"" + std::string(text_) + "\", character " +
                               std::to_string(at_ + 1) + ": expected " + complaint_};
  }

 private:
  char next() const { return at_ < text_.size() && complaint_.empty() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  Rational expected(const char* what) {
    if (complaint_.empty()) complaint_ = what;
    return {};
  }

  bool begins_factor() const {
    const char c = next();
    return c == '(' || c == '[' || std::isalnum(static_cast<unsigned char>(c));
  }

  Rational sum() {
    Rational value = product();
    while (true) {
      if (take('+')) {
        value = value + product();
      } else if (take('-')) {
        value = value - product();
      } else {
        return value;
      }
    }
  }

  Rational product() {
    Rational value = factor();
    while (true) {
      if (take('/')) {
        const Rational divisor = factor();
        if (divisor == Rational(0)) return expected("a divisor that is not zero");
        value = value / divisor;
      } else if (take('*') || begins_factor()) {
        value = value * factor();
      } else {
        return value;
      }
    }
  }

  Rational factor() {
    const Rational base = atom();
    if (!take('^')) return base;
    const Rational exponent = atom();
    Rational power = 1;
    for (int i = 0; i < 31 && exponent > Rational(i); ++i) power = power * base;
    return power;
  }

  Rational atom() {
    if (take('(')) {
      const Rational value = sum();
      return take(')') ? value : expected("\")\"");
    }
    if (take('[')) {
      const Rational left = sum();
      if (!take('>')) return expected("\">\"");
      const Rational right = sum();
      return take(']') ? Rational(left > right) : expected("\"]\"");
    }
    if (std::isdigit(static_cast<unsigned char>(next()))) {
      int64_t number = 0;
      while (std::isdigit(static_cast<unsigned char>(next())) && number < 1'000'000) {
        number = number * 10 + (text_[at_++] - '0');
      }
      return number;
    }
    const uint32_t q = std::bit_floor(p_);
    if (take('p')) return p_;
    if (take('L')) return int64_t(std::bit_width(p_ - 1));
    if (take('l')) return std::countr_zero(q);
    if (take('q')) return q;
    if (take('e')) return p_ - q;
    if (take('h')) return (p_ + 1) / 2;
    if (take('M')) return p_ < 3 ? 0 : int64_t(std::bit_width(p_ - 2));
    if (take('s')) return ones_below(p_);
    return expected("a number, one of p L l M q e h s, \"(\" or \"[\"");
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t p_;
  std::string complaint_;
};

}  // namespace

Status evaluate(std::string_view formula, uint32_t nranks, Rational* out) {
  return Parser(formula, nranks).parse(out);
}

}  // namespace tutti::schedule
