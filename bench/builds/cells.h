// What is compared: collectives of float32, sums where they reduce, root 0, each at some lengths.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/builds/library.h"

namespace tutti::bench::builds {

struct Buffers {
  float* send;
  float* recv;
};

// Elements of a call's input and output.
struct Lengths {
  size_t input;
  size_t output;
};

struct Kind {
  const char* name;
  bool sized;    // false: no vectors
  bool blocks;   // the longer buffer has one block per rank
  bool in_recv;  // the input, too, is in the receive buffer
  Lengths (*lengths)(size_t count, int rank, int nranks);
  tutti_status (*call)(const Library& library, const Buffers& buffers, size_t count);
};

struct Cell {
  const Kind* kind;
  size_t bytes;  // of the longer buffer
  size_t count;  // elements, of a block where there are blocks
};

// Every collective of the comma list at every size (bytes, rounded down to whole blocks, at least
// one element each; equal ones once). Throws BadInput.
std::vector<Cell> make_cells(const std::string& collectives, const std::vector<size_t>& sizes,
                             int nranks);

// Of the longer buffer of any cell.
size_t longest(const std::vector<Cell>& cells);

}  // namespace tutti::bench::builds
