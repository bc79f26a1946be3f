// What passes between the host and the kernels, and between the GPUs of the ranks: the arguments of
// kernels and the memory that ranks share. Read by the host's compiler and by nvcc.
//
// How ranks wait for each other on GPUs. A flag is a word in the memory of the rank that waits for
// it. That rank's stream waits until the flag is not 0 (a memory operation of the stream, not a
// kernel: no kernel ever waits, so ranks may share a GPU in any way); the kernel after the wait
// clears bit 0 when it ends and sets bit 0 of flags of other ranks. A wait compares with no
// sequence number, so a captured graph can be replayed. For every flag that says "the data is
// there" a second one, in the other direction, says "it may be overwritten"; those are set when the
// communicator is made. After a failure the host releases everything that waits: it sets bit 1 of
// all its own flags, which no kernel clears, and `over`, after which kernels do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::device {

// An address of device memory, in the process that uses it; 0: none.
using Address = uint64_t;

constexpr uint32_t most_ranks = 32;  // of a communicator with GPUs; sets of ranks are 32 bits
constexpr uint32_t most_regions = 64;

constexpr uint32_t flag_set = 1;
constexpr uint32_t flag_over = 2;

// Of fused calls: ready_1, the input of the rank is there; free_1, the rank has read it, so that it
// may be overwritten; ready_2 and free_2 the same for the result of a rank's share. Of messages,
// with two slots a pair: full, empty.
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
// The flags that are set initially.
constexpr bool begins_set(Flag flag) {
  return flag == free_1 || flag == free_2 || flag == empty_0 || flag == empty_1;
}

// Where data of a rank lies. Region 0: nowhere that others can reach. 1: at the address `offset`,
// of ranks that are threads of one process. Others: shared regions.
struct Place {
  uint32_t region;
  uint32_t unused;
  uint64_t offset;
  uint64_t stride;  // bytes from one of its blocks to the next
};
constexpr uint32_t no_region = 0;
constexpr uint32_t process_region = 1;

// What a rank announces together with its data. All but the places must be equal on all ranks.
struct Entry {
  uint64_t digest;  // of everything that ranks must agree on
  uint64_t count;
  uint32_t collective, dtype, op, root;
  Place input, output;
};

// The channels of entries: the flags that they are announced with.
constexpr uint32_t fused_channel = 0;  // ready_1
constexpr uint32_t slot_channel = 1;   // and 2: full_0, full_1
constexpr uint32_t channels = 3;

// Which kernels of one communicator may run at the same time: one of the caller's stream and one of
// each of a plan's two lanes.
constexpr uint32_t main_lane = 0, outgoing_lane = 1, incoming_lane = 2;
constexpr uint32_t lanes = 3;

struct alignas(32) FlagWord {
  uint32_t value;
};

// The beginning of a rank's arena, on its GPU.
struct Board {
  uint32_t over;            // not 0: kernels do nothing; set by the host or on a mismatch
  uint32_t arrived[lanes];  // blocks of the running kernel that are done; 0 between kernels
  uint64_t call;            // calls that have begun
  FlagWord flags[flag_kinds][most_ranks];     // by the rank that sets them
  Entry entries[channels][most_ranks];        // by the rank that writes them
  Address regions[most_ranks][most_regions];  // where the ranks' regions begin in this process
};

// In pinned memory of the host: what a GPU reports to its own host about a communicator.
struct Report {
  uint64_t begun, ended;  // how many calls have begun and ended on the GPU
  uint64_t timeout_ms;    // of the call that has begun; written before `begun`
  uint32_t failed;        // 1: the entries of two ranks differ
  uint32_t rank;          // the other one
  Entry own, theirs;
};

// An address that may be known only from an entry.
struct Spot {
  Address address;  // in this process; 0: the place in the entry of `rank`
  uint64_t offset;  // bytes, added to either
  uint32_t rank;
  uint32_t block;  // so many of the place's strides are added too
};

struct FlagSet {
  uint32_t flag;   // Flag
  uint32_t ranks;  // a set
};

// The arguments that every kernel takes. The last block to finish writes `entry` to the boards of
// `announce`, then clears the flags of `clear`, then sets those of `set`.
struct Common {
  Board* own;
  Board* boards[most_ranks];  // as mapped in this process
  Report* report;
  Entry entry;
  uint32_t self;
  uint32_t lane;        // that the kernel runs in
  uint32_t channel;     // of the entries that are read, and of the one that is written
  uint32_t announce;    // a set of ranks
  uint32_t check;       // ranks whose entries must equal `entry`; else only reports it
  FlagSet clear[2];     // on this rank's board, by the ranks that set them
  FlagSet set[2];       // on the boards of these ranks
  uint32_t begins;      // 1: the call begins with this kernel
  uint32_t ends;        // 1: the call ends with this kernel
  uint64_t timeout_ms;  // of the call, for the report, if it begins
};

// tutti_copy. Pieces may be empty, and there may be none.
struct CopyPiece {
  Spot from;  // in the input of the spot's rank
  Spot to;    // in the output of the spot's rank
  uint64_t bytes;
};
struct CopyArguments {
  Common common;
  uint32_t pieces;
  uint32_t unused;
  CopyPiece piece[most_ranks];
};

// tutti_combine_TYPE_OPERATOR[_canonical]: out[i] = from[0][i] op from[1][i] op ..., with the
// semantics of lib/reduce/reduce.h, written to each of `outputs` places. A place whose entry has no
// output is left out; if there is one, the result also goes to `aside`. `out` may be one of the
// operands.
struct CombineArguments {
  Common common;
  uint32_t operands;
  uint32_t outputs;
  uint32_t divide_by;  // what an average divides by; 0: it does not
  uint32_t unused;
  uint64_t count;  // elements
  Address aside;   // 0: none
  Spot from[most_ranks];
  Spot to[most_ranks];
};
static_assert(sizeof(CombineArguments) <= 4000 && sizeof(CopyArguments) <= 4000,
              "the arguments of a kernel");

}  // namespace tutti::device
