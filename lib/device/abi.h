// What passes between the host and the kernels, and between the GPUs of the ranks: the arguments of
// kernels and the memory that ranks share. Read by the host's compiler and by nvcc.
//
// How ranks wait for each other on GPUs. A flag is a word in the memory of the rank that waits for
// it. That rank's stream waits until it is not 0 (in the stream, not in a kernel: no kernel ever
// waits, so ranks may share a GPU in any way); the kernel behind the wait clears bit 0 when it ends
// and sets bit 0 of flags of other ranks. No number travels in a wait, so a captured graph can be
// replayed. For every flag that says "it is there" a second one, from the other rank, says "it may
// be overwritten"; those are set when the communicator is made. To let everything go on, after a
// failure, the host sets bit 1 of all its own flags, which no kernel clears, and `over`, after
// which kernels do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::device {

// Of device memory, in the process that uses it; 0: none.
using Address = uint64_t;

constexpr uint32_t most_ranks = 32;  // of a communicator with GPUs; sets of ranks are 32 bits
constexpr uint32_t most_regions = 64;

constexpr uint32_t flag_set = 1;
constexpr uint32_t flag_over = 2;

// Of fused calls: ready_1, the input of the rank is there; free_1, this rank has read it; ready_2
// and free_2 the same for what it made of its share. Of messages, each with two slots a pair: full,
// empty.
enum Flag : uint32_t {
  ready_1,
  free_1,
  ready_2,
  free_2,
  full_0,
  full_1,
  empty_0,
  empty_1,
  flag_kinds
};
// Those that are set to begin with.
constexpr bool begins_set(Flag flag) {
  return flag == free_1 || flag == free_2 || flag == empty_0 || flag == empty_1;
}

// Where something of a rank's lies. Region 0: nowhere that others reach. 1: at the address
// `offset`, of ranks that are threads of one process. Others: registered.
struct Place {
  uint32_t region;
  uint32_t unused;
  uint64_t offset;
  uint64_t stride;  // bytes from one of its blocks to the next
};
constexpr uint32_t no_region = 0;
constexpr uint32_t process_region = 1;

// What a rank announces with what it has for others. All but the places must be equal.
struct Entry {
  uint64_t digest;  // of all that ranks must agree on
  uint64_t count;
  uint32_t collective, dtype, op, root;
  Place input, output;
};

// Of entries: what they go with.
constexpr uint32_t fused_channel = 0;  // ready_1
constexpr uint32_t slot_channel = 1;   // and 2: full_0, full_1
constexpr uint32_t channels = 3;

// The kernels of one communicator that may run at the same time: those of the caller's stream, and
// of the two lanes of a plan.
constexpr uint32_t main_lane = 0, outgoing_lane = 1, incoming_lane = 2;
constexpr uint32_t lanes = 3;

struct alignas(32) FlagWord {
  uint32_t value;
};

// The beginning of a rank's arena, on its GPU.
struct Board {
  uint32_t over;            // not 0: kernels do nothing; by the host
  uint32_t arrived[lanes];  // blocks of the running kernel that are done; 0 in between
  uint64_t call;            // calls that have begun
  FlagWord flags[flag_kinds][most_ranks];     // by the rank that sets them
  Entry entries[channels][most_ranks];        // by the rank whose they are, which writes them
  Address regions[most_ranks][most_regions];  // where, here, the regions of the ranks begin
};

// In pinned memory of the host: what a GPU tells its own host about a communicator.
struct Report {
  uint64_t begun, ended;  // calls: whose turn came, that are done
  uint64_t timeout_ms;    // of the call that has begun, written before `begun`
  uint32_t failed;        // 1: the entries of two ranks differ
  uint32_t rank;          // the other one
  Entry own, theirs;
};

// Where entries leave open where something lies.
struct Spot {
  Address address;  // here; 0: what the entry of `rank` says
  uint64_t offset;  // bytes, added to either
  uint32_t rank;
  uint32_t block;  // of what the entry says: so many strides are added, too
};

struct FlagSet {
  uint32_t flag;   // Flag
  uint32_t ranks;  // a set
};

// What every kernel is told. When its last block ends, that block writes `entry` to the boards of
// `announce`, then clears the flags of `clear`, then sets those of `set`.
struct Common {
  Board* own;
  Board* boards[most_ranks];  // here
  Report* report;
  Entry entry;
  uint32_t self;
  uint32_t lane;      // it runs in
  uint32_t channel;   // of the entries that are read, and the one that is written
  uint32_t announce;  // ranks
  uint32_t check;     // ranks whose entries must equal this one: else nothing is done, and reported
  FlagSet clear[2];   // of the own board, by the ranks that set them
  FlagSet set[2];     // of the boards of these ranks
  uint32_t begins;    // 1: the call begins with this kernel
  uint32_t ends;      // 1: it ends with it
  uint64_t timeout_ms;  // where it begins: what it may take, for the report
};

// tutti_copy. Pieces with no bytes are allowed, as are none.
struct CopyPiece {
  Spot from;  // its rank's input
  Spot to;    // its rank's output
  uint64_t bytes;
};
struct CopyArguments {
  Common common;
  uint32_t pieces;
  uint32_t unused;
  CopyPiece piece[most_ranks];
};

// tutti_combine_TYPE_OPERATOR[_canonical]: out[i] = from[0][i] op from[1][i] op ..., as
// lib/reduce/reduce.h has it, `divide_by` being what an average divides by, to each of `outputs`
// places; those whose entry has no output are left out, and where there is such a one the result
// goes to `aside`, too. `out` may be one of the operands.
struct CombineArguments {
  Common common;
  uint32_t operands;
  uint32_t outputs;
  uint32_t divide_by;  // 0: nothing
  uint32_t unused;
  uint64_t count;  // elements
  Address aside;   // 0: there is no such place
  Spot from[most_ranks];
  Spot to[most_ranks];
};
static_assert(sizeof(CombineArguments) <= 4000 && sizeof(CopyArguments) <= 4000,
              "the arguments of a kernel");

}  // namespace tutti::device
