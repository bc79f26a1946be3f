// What vectors hold before a call and after it, computed from numbers alone. All contents are
// periodic tables, read from some offset on. The offset differs from call to call, so that a block
// of an earlier call, of another rank or from another place is not taken for the right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "bench/oracle.h"
#include "tutti/tutti.h"

namespace tutti::soak {

struct Content {
  const std::vector<unsigned char>* table;
  size_t phase;  // offset of the first byte in the table

  // The content that begins `bytes` later.
  Content behind(size_t bytes) const { return {table, (phase + bytes) % table->size()}; }
  void write(void* out, size_t bytes) const;
};

// What a reduction combines, and how.
struct Arithmetic {
  size_t type;  // indices of the vocabulary
  size_t op;
  bool encoded = false;  // float32 values that every codec represents exactly
  bool operator<(const Arithmetic& other) const {
    return std::tie(type, op, encoded) < std::tie(other.type, other.op, other.encoded);
  }
};

// For one thread of one rank.
class Contents {
 public:
  Contents();

  // Arbitrary bytes, different for every key.
  Content bytes(uint64_t key) const;
  // The input of `rank` of `nranks`, and the reduction of the first `ranks` inputs. `key`: the same
  // on all ranks.
  Content given(const Arithmetic& what, int nranks, int rank, uint64_t key);
  Content reduced(const Arithmetic& what, int nranks, int ranks, uint64_t key);

 private:
  using Table = std::vector<unsigned char>;
  // The arithmetic, the number of ranks, and the rank of an input or, negative, the number of ranks
  // of a reduction.
  using Which = std::tuple<Arithmetic, int, int>;
  Table make(const Which& which);
  Content at(const Which& which, uint64_t key);
  Table any_;
  std::map<Which, Table> tables_;
};

}  // namespace tutti::soak
