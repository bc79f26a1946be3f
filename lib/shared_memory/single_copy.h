// Finds out whether ranks may copy straight from each other's private memory, and does so. The
// kernel copies (lib/shared_memory/peer_memory.h), so nothing need be registered or mapped; some
// hosts and containers forbid it. All ranks get the same answer: each posts who it is, tries to
// read a number from every rank, and posts whether that worked.
#pragma once

#include "lib/shared_memory/flag_lines.h"

namespace tutti::shared {

// What a rank's memory may be read for; the least that any rank allows holds for all. In ascending
// order: nothing; long exchanges (for more ranks than cores), where the parts are separate for each
// rank and so long that a copy takes many time slices; collectives in which all have something long
// for all others; everything long.
enum class ReadFor : uint32_t { nothing, long_exchanges, exchanges, everything };

class SingleCopy {
 public:
  enum class Answer : uint8_t { unknown, yes, no };

  // Posts who this rank is and what it allows; of exchanges, those in which a rank fetches no more
  // than `most_exchanged_bytes`.
  SingleCopy(FlagLines& flags, ReadFor allowed, uint64_t most_exchanged_bytes);
  SingleCopy(const SingleCopy&) = delete;
  SingleCopy& operator=(const SingleCopy&) = delete;

  // What is known so far; never blocks. Becomes known once all ranks ask.
  Answer answer();
  // After a yes: whether single copy is allowed for this.
  bool allows(ReadFor what) const { return agreed_ >= what; }
  // Whether single copy pays only among ranks that do not share a last-level cache: so it is where
  // each rank has a core of its own and the user has not asked for single copy.
  bool only_from_afar() const { return agreed_ == ReadFor::exchanges; }
  // After a yes: the same on all ranks.
  uint64_t most_exchanged_bytes() const { return most_exchanged_bytes_; }
  // The lowest rank whose part of the answer is missing, -1 if none.
  int waits_for() const;

  // After a yes. 0, or an errno (see read_process()).
  int read(uint32_t rank, const std::byte* from, std::byte* to, size_t bytes) const;

 private:
  bool all_posted(uint32_t line) const;
  bool can_read_everyone();

  FlagLines& flags_;
  const uint64_t nonce_;
  ReadFor agreed_;
  uint64_t most_exchanged_bytes_;
  bool told_ = false;  // whether reading worked is posted
  Answer answer_ = Answer::unknown;
  std::vector<int32_t> pids_;
};

}  // namespace tutti::shared
