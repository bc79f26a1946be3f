// What a collective asks for: which chunks of the vector each rank has, which it gets, and whose
// contributions are in them. The vector is that of the whole collective: for an allgather all the
// blocks; for an alltoall the nranks^2 blocks, where the one from rank i to rank j is number
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

// What a rank puts into a collective, or gets out of it.
enum class Share : uint8_t {
  vector,     // all of the vector
  own_block,  // its own block only
  blocks,     // a block for, or from, each rank
};
enum class Root : uint8_t { none, source, target };  // whether all comes from, or goes to, one rank
// Whose contributions an operator combines.
enum class Combined : uint8_t { none, all, up_to_own, before_own };

// Everything that distinguishes collectives: a new one is a row here.
struct CollectiveTraits {
  const char* name;
  Share gives, gets;
  Root root = Root::none;
  Combined combined = Combined::none;
};
// Indexed by Collective.
inline constexpr CollectiveTraits collective_traits[collective_count] = {
    {"allreduce", Share::vector, Share::vector, Root::none, Combined::all},
    {"broadcast", Share::vector, Share::vector, Root::source},
    {"barrier", Share::vector, Share::vector, Root::none, Combined::all},
    {"point_to_point", Share::vector, Share::vector},
    {"reduce", Share::vector, Share::vector, Root::target, Combined::all},
    {"allgather", Share::own_block, Share::blocks},
    {"gather", Share::own_block, Share::blocks, Root::target},
    {"scatter", Share::blocks, Share::own_block, Root::source},
    {"reduce_scatter", Share::blocks, Share::own_block, Root::none, Combined::all},
    {"alltoall", Share::blocks, Share::blocks},
    {"scan", Share::vector, Share::vector, Root::none, Combined::up_to_own},
    {"exscan", Share::vector, Share::vector, Root::none, Combined::before_own},
};
constexpr const CollectiveTraits& traits_of(Collective collective) {
  return collective_traits[uint32_t(collective)];
}

constexpr const char* collective_name(Collective collective) {
  return uint32_t(collective) < collective_count ? traits_of(collective).name : "?";
}

// The collectives for which `holds` is true, as a bit mask: found at compile time, so that calls do
// not read the table.
template <class Holds>
consteval uint32_t collectives_where(Holds holds) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < collective_count; ++i) set |= uint32_t{holds(collective_traits[i])} << i;
  return set;
}
inline constexpr uint32_t rooted_collectives =
    collectives_where([](const CollectiveTraits& c) { return c.root != Root::none; });
inline constexpr uint32_t reducing_collectives =
    collectives_where([](const CollectiveTraits& c) { return c.combined != Combined::none; });
inline constexpr uint32_t scans = collectives_where([](const CollectiveTraits& c) {
  return c.combined == Combined::up_to_own || c.combined == Combined::before_own;
});
constexpr bool is_in(uint32_t set, Collective collective) {
  return (set >> uint32_t(collective) & 1) != 0;
}

// Whether there is a rank that everything goes from or to.
constexpr bool is_rooted(Collective collective) { return is_in(rooted_collectives, collective); }
// Whether an operator combines what the ranks have.
constexpr bool reduces(Collective collective) { return is_in(reducing_collectives, collective); }
// Whether ranks get results of different sets of contributions.
constexpr bool is_scan(Collective collective) { return is_in(scans, collective); }
// Whether an input, or an output, has a block for each rank.
constexpr bool input_has_blocks(Collective collective) {
  return traits_of(collective).gives == Share::blocks;
}
constexpr bool output_has_blocks(Collective collective) {
  return traits_of(collective).gets == Share::blocks;
}
// Whether the root's input is in the buffer that is the other ranks' output.
constexpr bool has_one_buffer(Collective collective) {
  const CollectiveTraits& c = traits_of(collective);
  return c.root == Root::source && c.gives == Share::vector;
}
// Whether all ranks get the same. A barrier has no result.
constexpr bool gives_all_the_same(Collective collective) {
  const CollectiveTraits& c = traits_of(collective);
  return c.gives != Share::blocks && c.root != Root::target && !is_scan(collective) &&
         collective != Collective::barrier;
}
// Whether, in place, a rank overwrites input that others have yet to read.
constexpr bool overwrites_input(Collective collective) {
  return is_scan(collective) || (input_has_blocks(collective) && !is_rooted(collective));
}
// Whether only the sender and the receiver of a block know its length in a v form.
constexpr bool lengths_are_private(Collective collective) {
  const CollectiveTraits& c = traits_of(collective);
  return c.gives != Share::vector && (c.root != Root::none || c.gives == c.gets);
}
// Whether a rank can end such a call without having heard from all others; in a v form its blocks
// may all be empty. The digests of later calls cover such calls: a rank that made a different one
// is found out by the next rank that hears from it.
constexpr bool ends_unheard(Collective collective, bool empty, bool v_form) {
  return empty || v_form || is_rooted(collective) || is_scan(collective);
}
// The collective whose algorithms serve it: a barrier is an allreduce of one byte of any value.
constexpr Collective runs_as(Collective collective) {
  return collective == Collective::barrier ? Collective::allreduce : collective;
}

class Goal {
 public:
  constexpr Goal(Collective collective, uint32_t nranks, uint32_t root = 0)
      : collective_(collective), traits_(traits_of(collective)), nranks_(nranks), root_(root) {}

  // Into how many blocks, each had and got by certain ranks, the vector falls. A schedule's chunks
  // are these blocks; where there is one block only, a schedule may have any number of chunks.
  constexpr uint32_t blocks() const {
    if (gives() == Share::vector) return 1;
    return gives() == gets() ? nranks_ * nranks_ : nranks_;
  }
  // The block that holds what goes from rank `from` to rank `to`.
  constexpr uint32_t block(uint32_t from, uint32_t to) const {
    if (gives() == Share::vector) return 0;
    if (gives() == Share::own_block) return from;
    return gets() == Share::own_block ? to : from * nranks_ + to;
  }
  // Of a rank's input and output.
  constexpr uint32_t input_blocks() const { return gives() == Share::blocks ? nranks_ : 1; }
  constexpr uint32_t output_blocks() const { return gets() == Share::blocks ? nranks_ : 1; }
  // The length of the vector in units of a rank's longer buffer.
  constexpr uint32_t buffers() const { return blocks() > nranks_ ? nranks_ : 1; }

  // Whether `rank` contributes to `chunk`.
  constexpr bool has(uint32_t rank, uint32_t chunk) const {
    if (traits_.root == Root::source) return rank == root_;
    if (gives() == Share::own_block) return rank == chunk;
    return gives() == Share::vector || gets() == Share::own_block || rank == chunk / nranks_;
  }
  constexpr bool has_input(uint32_t rank) const { return has(rank, block(rank, rank)); }

  // Whether `rank` gets the result of `chunk`. Its output for other chunks is working memory.
  constexpr bool gets(uint32_t rank, uint32_t chunk) const {
    if (traits_.root == Root::target) return rank == root_;
    if (traits_.combined == Combined::before_own) return rank > 0;
    if (gets() == Share::own_block) return rank == chunk;
    return gives() != gets() || gets() == Share::vector || rank == chunk % nranks_;
  }
  // Whether `rank` has an output, even if only as working memory.
  constexpr bool has_output(uint32_t rank) const {
    return traits_.root != Root::target || rank == root_;
  }
  // Whether `rank` gets something in its output that is not there already.
  constexpr bool fills_output(uint32_t rank) const {
    return gets(rank, block(rank, rank)) && !(has_one_buffer(collective_) && rank == root_);
  }

  // Whether what `rank` gets for `chunk` contains the contribution of `source`.
  constexpr bool combines(uint32_t source, uint32_t rank, uint32_t chunk) const {
    if (traits_.combined == Combined::up_to_own) return source <= rank;
    if (traits_.combined == Combined::before_own) return source < rank;
    return has(source, chunk);
  }
  // How many ranks' contributions are combined in what `rank` gets: those of the lowest ranks.
  constexpr uint32_t combined(uint32_t rank) const {
    if (traits_.combined == Combined::up_to_own) return rank + 1;
    if (traits_.combined == Combined::before_own) return rank;
    return traits_.combined == Combined::all ? nranks_ : 1;
  }

  constexpr bool operator==(const Goal& other) const {
    return collective_ == other.collective_ && nranks_ == other.nranks_ && root_ == other.root_;
  }

  constexpr Collective collective() const { return collective_; }
  constexpr uint32_t nranks() const { return nranks_; }
  constexpr uint32_t root() const { return root_; }

 private:
  constexpr Share gives() const { return traits_.gives; }
  constexpr Share gets() const { return traits_.gets; }

  Collective collective_;
  CollectiveTraits traits_;
  uint32_t nranks_;
  uint32_t root_;
};

}  // namespace tutti
