// Flight records as they are read: by a process that looks at another's while that writes, or at
// what one that is gone has left, whole or damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/record/format.h"

namespace tutti::record {

// Times are those of CLOCK_REALTIME in nanoseconds; 0: unknown.
struct ReadCall {
  uint64_t number = 0;  // on the communicator; 0: messages
  int peer = -1;        // of messages, the first one's; any_rank
  bool sends = false;
  CallSignature signature;
  State state = State::none;
  int64_t entered_ns = 0, left_ns = 0;
  uint32_t sequence = 0;

  // "call 17, allreduce of 4 float32, sum, ring"; "a message of 4 float32, tag 3, to rank 1".
  std::string describe() const;
};

struct ReadWait {
  uint32_t sequence = 0;  // of the call; 0: never waited
  int peer = -1;
  int64_t since_ns = 0, seen_ns = 0;
  std::string link;
  std::string addresses;  // "10.0.0.1:4711 to 10.0.0.2:4712"; empty: it has none
};

struct ReadFailure {
  tutti_status code = TUTTI_OK;
  int rank = -1;
  uint64_t call = 0;
  int64_t at_ns = 0;
  std::string text;
};

struct ReadComm {
  uint64_t id = 0;
  int rank = 0, nranks = 0;
  bool freed = false;
  int64_t made_ns = 0, freed_ns = 0;
  std::string transport;
  ReadWait wait;
  ReadFailure failure;
  std::vector<ReadCall> calls;  // the last ones, in the order in which they were entered

  // The collective that it has entered last; null: none.
  const ReadCall* last() const;
  // What it has entered and not left; the one that waits before others; null: nothing.
  const ReadCall* open() const;
  const ReadWait* wait_of(const ReadCall& call) const {
    return wait.sequence == call.sequence ? &wait : nullptr;
  }
};

struct ReadProcess {
  int64_t process = 0;
  std::string host, program;
  uint64_t device = 0, inode = 0;
  bool ended_in_order = false;
  uint32_t unrecorded = 0;
  std::vector<ReadComm> comms;

  int64_t latest_ns() const;  // of anything in it
};

// CORRUPT, with a sentence about `name`, for what is no flight record of this version. Entries that
// were being written, or are damaged, are left out; so are communicators that cannot be.
Status read(std::span<const std::byte> bytes, const std::string& name, ReadProcess* out);

}  // namespace tutti::record
