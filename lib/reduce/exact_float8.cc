#include <array>
#include <cstring>

#include "lib/reduce/exact.h"

namespace tutti::reduce {

namespace {

// The kinds of patterns.
enum Kind : uint8_t { finite = 1, minus_zero = 2, plus_infinity = 4, minus_infinity = 8, nan = 16 };

struct Table {
  std::array<int64_t, 256> units{};
  std::array<uint8_t, 256> kinds{};
};

constexpr Table make_table(const FloatFormat& format) {
  Table table;
  for (int pattern = 0; pattern < 256; ++pattern) {
    const int magnitude = pattern & 0x7F;
    const bool negative = pattern >= 0x80;
    const int field = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int implicit = field == 0 ? 0 : 1 << format.mantissa_bits;
    auto& kind = table.kinds[size_t(pattern)];
    if (uint64_t(magnitude) > format.greatest) {
      const bool infinite = uint64_t(magnitude) == format.infinity && format.infinity != format.nan;
      kind = !infinite ? nan : negative ? minus_infinity : plus_infinity;
      continue;
    }
    const int64_t units = int64_t(implicit + mantissa) << (field == 0 ? 0 : field - 1);
    table.units[size_t(pattern)] = negative ? -units : units;
    kind = pattern == 0x80 ? minus_zero : finite;
  }
  return table;
}

constexpr int unit_exponent(const FloatFormat& format) {
  return format.least_exponent - format.mantissa_bits;
}

uint8_t from_units(const FloatFormat& format, int64_t units) {
  const uint64_t magnitude = units < 0 ? -uint64_t(units) : uint64_t(units);
  return uint8_t(round_to(format, units < 0, magnitude, unit_exponent(format)));
}

constexpr Table kE4M3 = make_table(kFloat8E4M3);
constexpr Table kE5M2 = make_table(kFloat8E5M2);

uint8_t finish(const FloatFormat& format, int64_t units, unsigned kinds) {
  constexpr unsigned infinities = plus_infinity | minus_infinity;
  if ((kinds & nan) != 0 || (kinds & infinities) == infinities) return uint8_t(format.nan);
  if ((kinds & plus_infinity) != 0) return uint8_t(format.infinity);
  if ((kinds & minus_infinity) != 0) return uint8_t(0x80 | format.infinity);
  return kinds == minus_zero ? 0x80 : from_units(format, units);
}

void reduce_exact(const FloatFormat& format, const Table& table, void* out,
                  const void* const* operands, size_t n, size_t elements) {
  if (n == 1) {
    if (out != operands[0] && elements != 0) std::memcpy(out, operands[0], elements);
    return;
  }
  auto* to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < elements; ++i) {
    int64_t units = 0;
    unsigned kinds = 0;
    for (size_t k = 0; k < n; ++k) {
      const uint8_t pattern = static_cast<const uint8_t*>(operands[k])[i];
      units += table.units[pattern];
      kinds |= table.kinds[pattern];
    }
    to[i] = finish(format, units, kinds);
  }
}

}  // namespace

int64_t e4m3_units(uint8_t pattern) { return kE4M3.units[pattern]; }
int64_t e5m2_units(uint8_t pattern) { return kE5M2.units[pattern]; }
uint8_t e4m3_from_units(int64_t units) { return from_units(kFloat8E4M3, units); }
uint8_t e5m2_from_units(int64_t units) { return from_units(kFloat8E5M2, units); }

void reduce_exact_e4m3(void* out, const void* const* operands, size_t n, size_t elements) {
  reduce_exact(kFloat8E4M3, kE4M3, out, operands, n, elements);
}

void reduce_exact_e5m2(void* out, const void* const* operands, size_t n, size_t elements) {
  reduce_exact(kFloat8E5M2, kE5M2, out, operands, n, elements);
}

}  // namespace tutti::reduce
