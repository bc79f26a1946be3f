// The calls that ranks make, drawn from a seed: the same on all ranks, and every step
// independently, so that a run can begin at any step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/tutti-soak/contents.h"
#include "tutti/tutti.h"

namespace tutti::soak {

enum class Kind {
  allreduce,
  reduce,
  broadcast,
  allgather,
  allgatherv,
  gather,
  gatherv,
  scatter,
  scatterv,
  alltoall,
  alltoallv,
  scan,
  exscan,
  reduce_scatter_block,
  reduce_scatter,
  barrier,
  coded,     // allreduce of encoded vectors
  sendrecv,  // round a ring
  message,   // ranks in pairs: the even one sends
  group,     // any messages between any ranks at once
  count
};
const char* kind_name(Kind kind);

enum class Form { blocking, nonblocking, persistent };

// The communicators of a thread.
enum class Team { all, copy, reversed, half, count };

// Where ranks have their vectors.
enum class Memory { heap, symmetric, mixed };

// How long the blocks of v forms are.
enum class Spread { alike, ragged, some_empty, one };

struct Call {
  Kind kind = Kind::barrier;
  Form form = Form::blocking;
  Team team = Team::all;
  Arithmetic what{};  // calls without a reduction have a type, too
  size_t count = 0;   // elements: of a vector, or of one block
  Spread spread = Spread::alike;
  bool symmetric_lengths = false;  // of alltoallv: blocks i to j and j to i are equally long
  Memory memory = Memory::heap;
  uint64_t root = 0;                // modulo the number of ranks
  const char* algorithm = nullptr;  // forced
  const char* codec = nullptr;
  uint32_t flags = 0;
  tutti_level level = TUTTI_LEVEL_DEFAULT;
  uint64_t key = 0;  // its contents follow from it

  bool reduces() const;
  // Whether buffers have a block for every rank.
  bool in_blocks() const;
  // May end with UNSUPPORTED.
  bool may_be_refused() const { return algorithm || level == TUTTI_LEVEL_EXACT; }
  // Elements of the block that goes from one rank to another.
  size_t length(int from, int to, int nranks) const;
};

// Calls that are made one after the other before any result is checked; repeated several times with
// other contents.
struct Step {
  std::vector<Call> calls;
  int rounds = 1;
};

// Bytes of all vectors of a step on one rank, without margins.
constexpr size_t most_step_bytes = size_t(24) << 20;
constexpr size_t most_step_calls = 10;

// How ranks behave in a step.
struct Manner {
  bool late;     // they sleep now and then, before calls and between begin and wait
  bool stalled;  // a signal handler stops them at any instruction
};
Manner manner_of(uint64_t seed, uint64_t step);

// `nranks`: of the largest communicator.
Step draw_step(uint64_t seed, uint64_t step, int nranks);

// "allreduce of 10240 float32, sum, by ring, nonblocking, on the half".
std::string describe(const Call& call);

}  // namespace tutti::soak
