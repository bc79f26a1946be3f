// The protocol between the controller of a comparison and the ranks of each implementation, over a
// Unix socket. Both run the same build on the same host, so structs travel as they are. Only
// standard headers: peers' programs are compiled by other compilers' wrappers.
#pragma once

#include <cstdint>

namespace tutti::bench {

constexpr uint32_t peer_magic = 0x70656572;

// A rank's first message. The answer is one byte, with the memory of the team's gate (gate.h).
struct PeerHello {
  uint32_t magic = peer_magic;
  int32_t team = 0;
  int32_t rank = 0;
  int32_t pid = 0;         // filled in by the controller
  char cpus[64] = {};      // that it may run on, "0" or "0,1"
  char version[128] = {};  // of the library, as it reports it
};

enum class PeerTask : uint32_t {
  prepare = 1,  // allocate vectors of `bytes`, touch and fill them
  check = 2,    // one call into a poisoned output
  run = 3,      // `warm_calls` calls, then `batches` of `calls` each
  quit = 4,
};
struct PeerOrder {
  PeerTask task = PeerTask::quit;
  uint64_t bytes = 0;
  uint64_t warm_calls = 0;
  uint64_t calls = 0;
  uint64_t batches = 0;
  uint64_t live = 0;  // each call by itself, its input written before, its result read after
};

// The answer to every order but quit; after `run`, `batches` doubles follow: us a batch.
struct PeerReply {
  uint64_t wrong = 0;  // elements, after `check`
};

}  // namespace tutti::bench
