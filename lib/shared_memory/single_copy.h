// Whether ranks may copy straight from each other's private memory, and doing it. The kernel does
// the copying (lib/shared_memory/peer_memory.h), so nothing need be registered or mapped; some
// hosts and containers forbid it. All ranks get the same answer: each tells the others who it is,
// tries to read a number from everyone, and tells how that went.
#pragma once

#include "lib/shared_memory/flag_lines.h"

namespace tutti::shared {

// What ranks may be read for: nothing; where ranks take turns on their cores, what is separate for
// each other rank and so long that it takes many turns; collectives in which all have something
// long for all others; everything long. What all allow holds.
enum class ReadFor : uint32_t { nothing, long_exchanges, exchanges, everything };

class SingleCopy {
 public:
  enum class Answer : uint8_t { unknown, yes, no };

  // Tells the others who this rank is, and what it allows: exchanges in which a rank fetches no
  // more than `most_exchanged_bytes`.
  SingleCopy(FlagLines& flags, ReadFor allowed, uint64_t most_exchanged_bytes);
  SingleCopy(const SingleCopy&) = delete;
  SingleCopy& operator=(const SingleCopy&) = delete;

  // What is known by now; never blocks. Comes to be known when all ranks ask.
  Answer answer();
  // After a yes: whether for this.
  bool allows(ReadFor what) const { return agreed_ >= what; }
  // Whether it is better only where lines come from afar: where ranks have cores of their own, and
  // nobody has asked for it.
  bool only_from_afar() const { return agreed_ == ReadFor::exchanges; }
  // The same for all ranks then.
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
  bool told_ = false;  // how reading went
  Answer answer_ = Answer::unknown;
  std::vector<int32_t> pids_;
};

}  // namespace tutti::shared
