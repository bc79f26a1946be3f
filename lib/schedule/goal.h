// What a collective asks for: which chunks of the vector each rank has, which it gets, and whose
// contributions are in them. The vector is what all ranks have in mind together: of an allgather
// all the blocks, of an alltoall the nranks^2 blocks, block (i, j) going from rank i to rank j at
// i * nranks + j.
#pragma once

#include <cstdint>

namespace tutti {

enum class Collective : uint8_t {
  allreduce,
  broadcast,
  barrier,
  point_to_point,
  reduce,
  allgather,
  gather,
  scatter,
  reduce_scatter,
  alltoall,
  scan,
  exscan,
};
constexpr uint32_t collective_count = 12;

constexpr const char* collective_name(Collective collective) {
  constexpr const char* names[collective_count] = {
      "allreduce", "broadcast", "barrier",        "point_to_point", "reduce", "allgather",
      "gather",    "scatter",   "reduce_scatter", "alltoall",       "scan",   "exscan"};
  return uint32_t(collective) < collective_count ? names[uint32_t(collective)] : "?";
}

// Whether there is a rank that everything goes from or to.
constexpr bool is_rooted(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}
// Whether an operator combines what the ranks have.
constexpr bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::barrier ||
         collective == Collective::reduce || collective == Collective::reduce_scatter ||
         collective == Collective::scan || collective == Collective::exscan;
}
// Whether ranks get results of different sets of contributions.
constexpr bool is_scan(Collective collective) {
  return collective == Collective::scan || collective == Collective::exscan;
}

class Goal {
 public:
  constexpr Goal(Collective collective, uint32_t nranks, uint32_t root = 0)
      : collective_(collective), nranks_(nranks), root_(root) {}

  // Into how many blocks, each the business of certain ranks, the vector falls. A schedule's chunks
  // are these blocks, or, where it is 1, any number.
  constexpr uint32_t blocks() const {
    switch (collective_) {
      case Collective::allgather:
      case Collective::gather:
      case Collective::scatter:
      case Collective::reduce_scatter:
        return nranks_;
      case Collective::alltoall:
        return nranks_ * nranks_;
      default:
        return 1;
    }
  }
  // The block that holds what goes from rank `from` to rank `to`.
  constexpr uint32_t block(uint32_t from, uint32_t to) const {
    switch (collective_) {
      case Collective::allgather:
      case Collective::gather:
        return from;
      case Collective::scatter:
      case Collective::reduce_scatter:
        return to;
      case Collective::alltoall:
        return from * nranks_ + to;
      default:
        return 0;
    }
  }
  // How many vectors as long as a rank's longer buffer the vector is.
  constexpr uint32_t buffers() const { return collective_ == Collective::alltoall ? nranks_ : 1; }

  // Whether `rank` has something to put in for `chunk`.
  constexpr bool has(uint32_t rank, uint32_t chunk) const {
    switch (collective_) {
      case Collective::broadcast:
      case Collective::scatter:
        return rank == root_;
      case Collective::allgather:
      case Collective::gather:
        return rank == chunk;
      case Collective::alltoall:
        return rank == chunk / nranks_;
      default:
        return true;
    }
  }

  // Whether `rank` gets the result of `chunk`. Its output for other chunks is memory to work in.
  constexpr bool gets(uint32_t rank, uint32_t chunk) const {
    switch (collective_) {
      case Collective::reduce:
      case Collective::gather:
        return rank == root_;
      case Collective::scatter:
      case Collective::reduce_scatter:
        return rank == chunk;
      case Collective::alltoall:
        return rank == chunk % nranks_;
      case Collective::exscan:
        return rank > 0;
      default:
        return true;
    }
  }

  // Whether what `rank` gets for `chunk` contains what `source` put in.
  constexpr bool combines(uint32_t source, uint32_t rank, uint32_t chunk) const {
    if (collective_ == Collective::scan) return source <= rank;
    if (collective_ == Collective::exscan) return source < rank;
    return has(source, chunk);
  }

  bool operator==(const Goal&) const = default;

  constexpr Collective collective() const { return collective_; }
  constexpr uint32_t nranks() const { return nranks_; }
  constexpr uint32_t root() const { return root_; }

 private:
  Collective collective_;
  uint32_t nranks_;
  uint32_t root_;
};

}  // namespace tutti
