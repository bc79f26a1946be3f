// The file of a flight record: what one process writes of its communicators, in memory that the
// kernel keeps when the process is killed. A header, then slots of equal size, one a communicator.
//
// One process writes, and only while it lives; whoever reads takes each part as it is at that
// moment (lib/record/read.h). Numbers are in the byte order of the host, which the magic tells.
// Times are those of CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/call/call.h"

namespace tutti::record {

constexpr uint64_t magic = 0x6472'6f63'6572'7474;  // "ttrecord"
constexpr uint32_t version = 2;
constexpr uint32_t most_slots = 4096;
constexpr uint32_t ring_entries = 256;

constexpr uint32_t library_version() {
  return TUTTI_VERSION_MAJOR << 20 | TUTTI_VERSION_MINOR << 10 | TUTTI_VERSION_PATCH;
}

enum class Ended : uint32_t { no = 0, in_order = 1 };

struct FileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;  // that have been used so far
  // Of the file as it was made: a copy has others.
  uint64_t device, inode;
  int64_t process;
  int64_t realtime_ns;  // the offset of CLOCK_REALTIME from CLOCK_MONOTONIC
  Ended ended;          // in_order: as the program's own end
  uint32_t unrecorded;  // communicators for which there was no slot
  uint32_t library;     // library_version() of who wrote it: algorithms have numbers
  uint32_t reserved;
  char host[64];
  char program[64];
};

enum class Use : uint32_t { none = 0, live = 1, freed = 2 };

// Written in one go by one thread; odd while that goes on.
struct Wait {
  uint32_t turn;
  int32_t peer;       // for whom the rank waits; -1: unknown
  uint32_t sequence;  // of the entry that waits
  uint32_t reserved;
  uint64_t since_ns;    // begun to wait
  uint64_t seen_ns;     // still waits
  char link[16];        // the transport to that peer
  char addresses[112];  // between which it goes, where it has any
};

// Written once, before `set`.
struct Failure {
  uint32_t set;
  int32_t code;  // tutti_status
  int32_t rank;  // that it is about; -1: none
  uint32_t reserved;
  uint64_t call;  // its number; 0: none
  uint64_t at_ns;
  char text[640];
};

struct CommHeader {
  Use use;
  uint32_t rank;
  uint32_t nranks;
  uint32_t reserved;
  uint64_t id;  // the same on all its ranks, and nowhere else
  uint64_t made_ns;
  uint64_t freed_ns;
  char transport[64];
  Wait wait;
  Failure failure;
};

enum class State : uint32_t { none = 0, entered = 1, left = 2, failed = 3 };

// A call. `sequence` is stored first, as 0, and last but `tail`; an entry whose tail does not
// belong to its sequence was being written.
struct Entry {
  uint64_t call;  // its number on the communicator; of messages as message() has it
  CallSignature signature;
  uint64_t entered_ns;  // as of the last tick of the kernel's clock, some milliseconds
  uint64_t
      left_ns;  // as exactly, of calls that had to wait; others left before the next was entered
  uint32_t sequence;  // 1, 2, ... modulo 2^32; its place in the ring follows from it
  uint32_t tail;      // State in the lowest 2 bits, above them the sequence
};
static_assert(sizeof(Entry) == 64);

constexpr uint32_t tail_of(uint32_t sequence, State state) {
  return sequence << 2 | uint32_t(state);
}

// Messages have no number: instead of it an entry has the first one's peer and direction.
constexpr uint64_t message_bit = uint64_t{1} << 63, sends_bit = uint64_t{1} << 62;
constexpr int any_rank = 0x7fffffff;  // the peer of a receive from any rank
constexpr uint64_t message(int peer, bool sends) {
  return message_bit | (sends ? sends_bit : 0) | uint32_t(peer);
}

struct Slot {
  alignas(1024) CommHeader header;
  alignas(1024) std::array<Entry, ring_entries> ring;
};

constexpr size_t header_bytes = 4096;
constexpr size_t slot_bytes = 20480;  // whole pages
static_assert(sizeof(FileHeader) <= header_bytes && sizeof(Slot) <= slot_bytes);
static_assert(sizeof(CommHeader) <= 1024);

}  // namespace tutti::record
