#include "tools/tutti-soak/contents.h"

#include <algorithm>
#include <cstring>

#include "tools/tutti-soak/random.h"
#include "tools/tutti-soak/vocabulary.h"

namespace tutti::soak {
namespace {

using Table = std::vector<unsigned char>;

// Prime, so that no division of a vector into parts is a multiple of it.
constexpr size_t any_bytes = 65521;
size_t period(size_t size) { return size <= 16 ? 4093 : size <= 128 ? 509 : 61; }

// Values are random bytes.
Table own_input(size_t size, int rank) {
  Table table(period(size) * size);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<unsigned char>(mix(uint64_t(rank) + 77, i));
  return table;
}

Table own_reduction(const Type& type, const Operator& op, int ranks) {
  Table table = own_input(type.size, 0);
  for (int rank = 1; rank < ranks; ++rank) {
    const Table higher = own_input(type.size, rank);
    op.function(table.data(), higher.data(), table.data(), period(type.size), type.dtype, nullptr);
  }
  return table;
}

// Accumulators of the sum of one value from each rank of the range.
Table binned_sum(const Type& type, int first, int last) {
  Table table(period(type.size) * type.size);
  std::vector<double> values(period(type.size));
  std::vector<float> floats(values.size());
  for (int rank = first; rank < last; ++rank) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = double(int64_t(mix(uint64_t(rank), i)) >> 20) / 1024;
      floats[i] = float(values[i]);
    }
    if (type.dtype == TUTTI_BINNED_FLOAT64) {
      tutti_binned_deposit(table.data(), type.dtype, values.data(), values.size(), TUTTI_FLOAT64);
    } else {
      tutti_binned_deposit(table.data(), type.dtype, floats.data(), floats.size(), TUTTI_FLOAT32);
    }
  }
  return table;
}

// Sums whose operands and results are values of float8_e4m3.
Table encoded_sum(int nranks, int first, int last) {
  Table table(period(sizeof(float)) * sizeof(float));
  for (size_t i = 0; i < period(sizeof(float)); ++i) {
    float sum = 0;
    for (int rank = first; rank < last; ++rank)
      sum += float(bench::Oracle::value(TUTTI_FLOAT8_E4M3, TUTTI_SUM, nranks, rank, i).first);
    std::memcpy(&table[i * sizeof sum], &sum, sizeof sum);
  }
  return table;
}

}  // namespace

void Content::write(void* out, size_t bytes) const {
  auto* to = static_cast<unsigned char*>(out);
  for (size_t at = 0, from = phase; at < bytes;) {
    const size_t n = std::min(bytes - at, table->size() - from);
    std::memcpy(to + at, table->data() + from, n);
    at += n;
    from = 0;
  }
}

Contents::Contents() : any_(any_bytes) {
  for (size_t i = 0; i < any_.size(); ++i) any_[i] = static_cast<unsigned char>(mix(i));
}

Content Contents::bytes(uint64_t key) const { return {&any_, mix(key) % any_.size()}; }

Content Contents::given(const Arithmetic& what, int nranks, int rank, uint64_t key) {
  return at({what, nranks, rank}, key);
}

Content Contents::reduced(const Arithmetic& what, int nranks, int ranks, uint64_t key) {
  return at({what, nranks, -ranks}, key);
}

Content Contents::at(const Which& which, uint64_t key) {
  const size_t size = Vocabulary::get().types()[std::get<Arithmetic>(which).type].size;
  auto found = tables_.find(which);
  if (found == tables_.end()) found = tables_.emplace(which, make(which)).first;
  return {&found->second, mix(key) % period(size) * size};
}

Contents::Table Contents::make(const Which& which) {
  const auto& [what, nranks, rank] = which;
  const Vocabulary& words = Vocabulary::get();
  const Type& type = words.types()[what.type];
  const Operator& op = words.operators()[what.op];
  const bool input = rank >= 0;
  const int first = input ? rank : 0, last = input ? rank + 1 : -rank;
  if (what.encoded) return encoded_sum(nranks, first, last);
  if (op.function) return input ? own_input(type.size, rank) : own_reduction(type, op, last);
  if (!bench::Oracle::knows(type.dtype, op.op)) return binned_sum(type, first, last);
  const bench::Oracle oracle(type.dtype, op.op, nranks, first);
  return input ? oracle.input_of(rank) : oracle.reduction_of(last);
}

}  // namespace tutti::soak
