// Finds out whether ranks may copy straight from each other's private memory, and does so. The
// kernel copies (lib/shared_memory/peer_memory.h), so nothing need be registered or mapped; some
// hosts and containers forbid it. All ranks get the same answer: each posts who it is, tries to
// read a number from every rank, and posts whether that worked.
#pragma once

#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/peer_memory.h"

namespace tutti::shared {

// Whether a rank lets the others copy from its memory; one that never does forbids it to all.
// `always`: also where a call does not ask for it.
enum class Copying : uint32_t { never, where_asked, always };

class SingleCopy {
 public:
  enum class Answer : uint8_t { unknown, yes, no };

  // Posts who this rank is and what it allows. `flags` outlives this.
  SingleCopy(FlagLines& flags, Copying own);
  SingleCopy(const SingleCopy&) = delete;
  SingleCopy& operator=(const SingleCopy&) = delete;

  // What is known so far; never blocks. Becomes known once all ranks ask.
  Answer answer();
  // Whether this rank lets others copy also where the call does not ask for it.
  bool always() const { return own_ == Copying::always; }
  // The lowest rank whose part of the answer is missing, -1 if none.
  int waits_for() const;

  // After a yes. 0, or an errno (see read_process()).
  int read(uint32_t rank, const std::byte* from, std::byte* to, size_t bytes) const;

 private:
  bool all_posted(uint32_t line) const;
  bool can_read_everyone();

  FlagLines& flags_;
  const uint64_t nonce_;
  const Copying own_;
  bool told_ = false;  // whether reading worked is posted
  Answer answer_ = Answer::unknown;
  std::vector<PeerProcess> processes_;
};

}  // namespace tutti::shared
