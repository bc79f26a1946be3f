// What ranks tell each other of a trial (lib/select/trial.h): a word each, in flag lines, with a
// call in which all ranks hear from all others. Each tells its verdict when it enters the call, and
// all know all when they end it. A rank that tells the next one has ended a later call like it, so
// all others have entered that, and read what was told before: two lines in turn suffice.
#pragma once

#include "lib/shared_memory/flag_lines.h"

namespace tutti::shared {

class Verdicts {
 public:
  // `flags` outlives this.
  explicit Verdicts(FlagLines& flags) : flags_(flags) {}

  // `tag`: of the trial and its look, not 0; the same on all ranks. `verdict`: of 48 bits.
  void tell(uint16_t tag, uint64_t verdict) {
    ++told_;
    slots::store(flags_.at(flags_.self(), last_line()).flag, uint64_t{tag} << tag_shift | verdict,
                 std::memory_order_release);
  }
  // Whether `rank` has told that verdict, the last one.
  bool heard(uint32_t rank, uint16_t tag, uint64_t* out) const {
    const uint64_t word = flags_.flag(rank, last_line());
    *out = word & ((uint64_t{1} << tag_shift) - 1);
    return word >> tag_shift == tag;
  }

  // This rank has ended that call, which all have timed.
  void show_end(uint32_t call) { flags_.set(line::timed, call, 0); }
  bool all_have_ended(uint32_t call) const {
    for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
      const uint32_t theirs = flag_sequence(flags_.flag(rank, line::timed));
      if (rank != flags_.self() && int32_t(theirs - call) < 0) return false;
    }
    return true;
  }

 private:
  static constexpr uint32_t tag_shift = 48;

  uint32_t last_line() const { return line::verdict + 2 * (told_ & 1); }

  FlagLines& flags_;
  uint32_t told_ = 0;  // verdicts so far
};

}  // namespace tutti::shared
