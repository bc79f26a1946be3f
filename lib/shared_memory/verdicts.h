// What ranks tell each other of a trial (lib/select/trial.h): a word each, in flag lines.
//
// Where all ranks of a call hear from all others, each tells its verdict when it enters the call,
// and all know all when they end it. A rank that tells the next one has ended a later call like it,
// so all others have entered that, and read what was told before: two lines in turn suffice. Where
// they do not, a verdict may be overwritten before somebody has read it, who then goes without it:
// so it may decide only what a rank decides for itself.
#pragma once

#include "lib/shared_memory/flag_lines.h"

namespace tutti::shared {

class Verdicts {
 public:
  // `flags` outlives this.
  explicit Verdicts(FlagLines& flags) : flags_(flags) {}

  // `tag`: of the trial and its look, not 0; the same on all ranks. `verdict`: of 48 bits.
  void tell_together(uint16_t tag, uint64_t verdict) {
    ++together_;
    tell(line_together(), tag, verdict);
  }
  void tell_alone(uint16_t tag, uint64_t verdict) { tell(line::lone_verdict, tag, verdict); }
  // Whether `rank` has told that verdict; of those that are told together, the last one.
  bool heard_together(uint32_t rank, uint16_t tag, uint64_t* out) const {
    return heard(rank, line_together(), tag, out);
  }
  bool heard_alone(uint32_t rank, uint16_t tag, uint64_t* out) const {
    return heard(rank, line::lone_verdict, tag, out);
  }

 private:
  static constexpr uint32_t tag_shift = 48;

  uint32_t line_together() const { return line::verdict + 2 * (together_ & 1); }
  void tell(uint32_t line, uint16_t tag, uint64_t verdict) {
    slots::store(flags_.at(flags_.self(), line).flag, uint64_t{tag} << tag_shift | verdict,
                 std::memory_order_release);
  }
  bool heard(uint32_t rank, uint32_t line, uint16_t tag, uint64_t* out) const {
    const uint64_t word = flags_.flag(rank, line);
    *out = word & ((uint64_t{1} << tag_shift) - 1);
    return word >> tag_shift == tag;
  }

  FlagLines& flags_;
  uint32_t together_ = 0;  // verdicts told together so far
};

}  // namespace tutti::shared
