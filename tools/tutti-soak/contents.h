// What vectors hold before a call and after it, known from numbers alone. All contents are tables
// that repeat, from some place in them on; which place differs from call to call, so that a block
// of an earlier call, of another rank or of another place is not taken for the right one.
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
  size_t phase;  // the byte of the table that comes first

  // What comes `bytes` later.
  Content behind(size_t bytes) const { return {table, (phase + bytes) % table->size()}; }
  void write(void* out, size_t bytes) const;
};

// What is combined, and how.
struct Arithmetic {
  size_t type;  // indices of the vocabulary
  size_t op;
  bool encoded = false;  // float32 that any codec leaves alone
  bool operator<(const Arithmetic& other) const {
    return std::tie(type, op, encoded) < std::tie(other.type, other.op, other.encoded);
  }
};

// For one thread of one rank.
class Contents {
 public:
  Contents();

  // Arbitrary bytes, other ones for every key.
  Content bytes(uint64_t key) const;
  // What `rank` of `nranks` gives, and what the first `ranks` of them make of it. `key`: the same
  // on all ranks.
  Content given(const Arithmetic& what, int nranks, int rank, uint64_t key);
  Content reduced(const Arithmetic& what, int nranks, int ranks, uint64_t key);

 private:
  using Table = std::vector<unsigned char>;
  // What, ranks in all, and a rank's input (the rank) or the reduction of some (- how many).
  using Which = std::tuple<Arithmetic, int, int>;
  Table make(const Which& which);
  Content at(const Which& which, uint64_t key);
  Table any_;
  std::map<Which, Table> tables_;
};

}  // namespace tutti::soak
