// The memory that the ranks of one communicator on one host share, and how it is laid out. The same
// layout serves processes (a memfd that all map) and threads (one mapping of one process).
//
// Against false sharing, everything that two ranks touch at the same time has a cache line of its
// own. Nothing that a peer writes is used as an address; as an index it is used only after a bounds
// check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/base/cache.h"
#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/note.h"
#include "lib/tuning/tuning.h"

namespace tutti::slots {

// One cache line: a flag, and room for a payload that travels with it.
struct alignas(line_bytes) FlagLine {
  std::atomic<uint64_t> flag;
  std::byte payload[line_bytes - sizeof(std::atomic<uint64_t>)];
};
static_assert(sizeof(FlagLine) == line_bytes);

// A slot of a ring: the flag says that `bytes` bytes are there, in the line itself when they fit,
// and `second` is a second digest of their message, for SlotLink::next(); 0 in a collective call.
struct alignas(line_bytes) SlotLine {
  static constexpr size_t inline_bytes = 48;
  std::atomic<uint64_t> flag;
  uint32_t bytes;
  uint32_t second;
  std::byte payload[inline_bytes];
};
static_assert(sizeof(SlotLine) == line_bytes);

// Copies up to 64 bytes without a loop or a call, in words from both ends that may overlap. So the
// stores to a flag's line follow each other closely: a peer that polls the line between two of them
// takes it out of this core's cache, and the next store must fetch it back.
[[gnu::always_inline]] inline void copy_short(std::byte* to, const std::byte* from, size_t bytes) {
  const auto ends = [&]<typename Word>(Word, size_t at) {
    Word first, last;
    std::memcpy(&first, from + at, sizeof(Word));
    std::memcpy(&last, from + bytes - at - sizeof(Word), sizeof(Word));
    std::memcpy(to + at, &first, sizeof(Word));
    std::memcpy(to + bytes - at - sizeof(Word), &last, sizeof(Word));
  };
  struct Words {
    uint64_t word[2];
  };
  if (bytes >= 16) {
    if (bytes > 32) ends(Words{}, 16);
    ends(Words{}, 0);
  } else if (bytes >= 8) {
    ends(uint64_t{}, 0);
  } else if (bytes >= 4) {
    ends(uint32_t{}, 0);
  } else if (bytes >= 2) {
    ends(uint16_t{}, 0);
  } else if (bytes == 1) {
    *to = *from;
  }
}

// The credit of a ring: how many slots its receiver has emptied since the start, modulo 2^32.
struct alignas(line_bytes) CreditLine {
  std::atomic<uint32_t> consumed;
};

// Why the communicator is over. `state`: 0 it is not, 1 being written, 2 written.
struct alignas(line_bytes) AbortRecord {
  static constexpr size_t text_bytes = 640;
  std::atomic<uint32_t> state;
  int32_t code;
  int32_t rank;
  uint32_t length;
  uint64_t call;
  char text[text_bytes];
};

// A call of a rank, for peers that compare it with their own. A seqlock whose sequence is the
// epoch: cleared first, written last.
struct alignas(line_bytes) CallLine {
  std::atomic<uint64_t> epoch;
  std::atomic<uint64_t> signature[sizeof(CallSignature) / 8];
};

// What keeps a rank from entering calls (lib/call/note.h): a seqlock. `sequence` is odd while the
// note is being written.
struct alignas(line_bytes) NoteLines {
  std::atomic<uint32_t> sequence;
  std::atomic<uint64_t> words[sizeof(Note) / 8];
};

// A piece of a text from one rank to another (lib/slots/mail.h).
struct alignas(line_bytes) MailSlot {
  static constexpr size_t payload_bytes = 4 * line_bytes - 16;
  std::atomic<uint32_t> sequence;  // of the piece that is there, from 1
  uint32_t bytes;
  uint32_t more;  // the text goes on in the next piece
  uint32_t reserved;
  std::byte payload[payload_bytes];
};
static_assert(sizeof(MailSlot) == 4 * line_bytes);

// What a rank is doing: its last calls (call e in line e % kept), the latest epoch that it entered,
// whether it has left in order, by freeing the communicator or by an exit between calls (1; 2: it
// had gone on in another one), and in which epoch; and its doorbell: the futex word that is 1 from
// arm() on, until the rank is woken or disarms it.
struct alignas(line_bytes) RankLines {
  static constexpr uint64_t kept = 4;
  CallLine calls[kept];
  alignas(line_bytes) std::atomic<uint64_t> epoch;
  std::atomic<uint64_t> left_in;
  std::atomic<uint32_t> left;
  alignas(line_bytes) std::atomic<uint32_t> doorbell;
  NoteLines note;
};

struct Geometry {
  static constexpr uint32_t cell_flag_lines = 160;  // lib/shared_memory/flag_lines.h assigns them
  // Of more ranks slots are shorter, so that all those of a rank take no more memory; but no
  // shorter than that.
  static constexpr uint32_t full_slot_ranks = 32, least_slice_bytes = 256;
  static constexpr uint32_t mail_slots = 4;  // of a pair, each way
  uint32_t nranks = 1;
  uint32_t slots = default_tuning.slots;             // of a ring, a power of two
  uint32_t slice_bytes = default_tuning.slot_bytes;  // payload of a slot, a multiple of a line
  uint32_t flag_lines = 0;                           // of the cells of a rank
  uint64_t cell_bytes = 0;  // data of the cells of a rank, a multiple of a page

  static Geometry for_ranks(uint32_t nranks, const Tuning& tuning);
  size_t total_bytes() const;
};

// Addresses in a mapped segment. Does not own the mapping.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, const Geometry& geometry);

  const Geometry& geometry() const { return geometry_; }
  AbortRecord& abort_record() const { return *reinterpret_cast<AbortRecord*>(base_); }
  RankLines& rank(uint32_t r) const { return reinterpret_cast<RankLines*>(base_ + ranks_)[r]; }
  CreditLine& credit(uint32_t from, uint32_t to) const {
    return reinterpret_cast<CreditLine*>(base_ + credits_)[from * geometry_.nranks + to];
  }
  SlotLine* slot_lines(uint32_t from, uint32_t to) const {
    return reinterpret_cast<SlotLine*>(base_ + slot_lines_) +
           size_t(from * geometry_.nranks + to) * geometry_.slots;
  }
  std::byte* slot_data(uint32_t from, uint32_t to) const {
    return base_ + slot_data_ +
           size_t(from * geometry_.nranks + to) * geometry_.slots * geometry_.slice_bytes;
  }
  FlagLine* flag_lines(uint32_t r) const {
    return reinterpret_cast<FlagLine*>(base_ + flags_) + size_t(r) * geometry_.flag_lines;
  }
  MailSlot* mail(uint32_t from, uint32_t to) const {
    return reinterpret_cast<MailSlot*>(base_ + mail_) +
           size_t(from * geometry_.nranks + to) * Geometry::mail_slots;
  }
  // Of the mail: the pieces taken.
  CreditLine& mail_credit(uint32_t from, uint32_t to) const {
    return reinterpret_cast<CreditLine*>(base_ + mail_credits_)[from * geometry_.nranks + to];
  }
  std::byte* cell_data(uint32_t r) const { return base_ + cells_ + r * geometry_.cell_bytes; }
  size_t total_bytes() const { return total_; }

 private:
  std::byte* base_ = nullptr;
  Geometry geometry_;
  size_t ranks_ = 0, credits_ = 0, slot_lines_ = 0, slot_data_ = 0, flags_ = 0, cells_ = 0,
         mail_credits_ = 0, mail_ = 0, total_ = 0;
};

}  // namespace tutti::slots
