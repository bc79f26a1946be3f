#include "bench/builds/cells.h"

#include <algorithm>
#include <sstream>

#include "bench/error.h"

namespace tutti::bench::builds {
namespace {

constexpr tutti_dtype type = TUTTI_FLOAT32;
constexpr int root = 0;

using Call = const Library&;
using To = const Buffers&;

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"allreduce", true, false, false,
       [](size_t n, int, int) {
         return Lengths{n, n};
       },
       [](Call c, To b, size_t n) {
         return c.functions().allreduce(b.send, b.recv, n, type, TUTTI_SUM, c.comm());
       }},
      {"broadcast", true, false, true,
       [](size_t n, int rank, int) {
         return rank == root ? Lengths{n, 0} : Lengths{0, n};
       },
       [](Call c, To b, size_t n) {
         return c.functions().broadcast(b.recv, n, type, root, c.comm());
       }},
      {"reduce", true, false, false,
       [](size_t n, int rank, int) {
         return Lengths{n, rank == root ? n : 0};
       },
       [](Call c, To b, size_t n) {
         return c.functions().reduce(b.send, b.recv, n, type, TUTTI_SUM, root, c.comm());
       }},
      {"allgather", true, true, false,
       [](size_t n, int, int nranks) {
         return Lengths{n, n * size_t(nranks)};
       },
       [](Call c, To b, size_t n) {
         return c.functions().allgather(b.send, b.recv, n, type, c.comm());
       }},
      {"alltoall", true, true, false,
       [](size_t n, int, int nranks) {
         return Lengths{n * size_t(nranks), n * size_t(nranks)};
       },
       [](Call c, To b, size_t n) {
         return c.functions().alltoall(b.send, b.recv, n, type, c.comm());
       }},
      {"reduce_scatter", true, true, false,
       [](size_t n, int, int nranks) {
         return Lengths{n * size_t(nranks), n};
       },
       [](Call c, To b, size_t n) {
         return c.functions().reduce_scatter(b.send, b.recv, n, type, TUTTI_SUM, c.comm());
       }},
      {"barrier", false, false, false,
       [](size_t, int, int) {
         return Lengths{0, 0};
       },
       [](Call c, To, size_t) { return c.functions().barrier(c.comm()); }},
  };
  return all;
}

const Kind& find_kind(const std::string& name) {
  std::string names;
  for (const Kind& kind : kinds()) {
    if (name == kind.name) return kind;
    names += std::string(names.empty() ? "" : ", ") + kind.name;
  }
  throw BadInput("collective '" + name + "': allowed are " + names);
}

Cell make_cell(const Kind& kind, size_t bytes, int nranks) {
  if (!kind.sized) return {&kind, 0, 0};
  const size_t unit = sizeof(float) * (kind.blocks ? size_t(nranks) : 1);
  const size_t count = std::max<size_t>(bytes / unit, 1);
  return {&kind, count * unit, count};
}

}  // namespace

std::vector<Cell> make_cells(const std::string& collectives, const std::vector<size_t>& sizes,
                             int nranks) {
  std::vector<Cell> cells;
  std::istringstream names(collectives);
  for (std::string name; std::getline(names, name, ',');) {
    const Kind& kind = find_kind(name);
    for (size_t size : sizes) {
      const Cell cell = make_cell(kind, size, nranks);
      if (std::none_of(cells.begin(), cells.end(), [&](const Cell& other) {
            return other.kind == cell.kind && other.bytes == cell.bytes;
          }))
        cells.push_back(cell);
    }
  }
  if (cells.empty()) throw BadInput("no collective is named");
  return cells;
}

size_t longest(const std::vector<Cell>& cells) {
  size_t bytes = sizeof(float);
  for (const Cell& cell : cells) bytes = std::max(bytes, cell.bytes);
  return bytes;
}

}  // namespace tutti::bench::builds
