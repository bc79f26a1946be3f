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

// Of the ranks of a call, who hear from each other in it: all from all, or not.
enum class Among : uint8_t { all, some };

class Verdicts {
 public:
  // `flags` outlives this.
  explicit Verdicts(FlagLines& flags) : flags_(flags) {}

  // `tag`: of the trial and its look, not 0; the same on all ranks. `verdict`: of 48 bits.
  void tell(Among among, uint16_t tag, uint64_t verdict) {
    told_ += among == Among::all;
    slots::store(flags_.at(flags_.self(), line_of(among)).flag,
                 uint64_t{tag} << tag_shift | verdict, std::memory_order_release);
  }
  // Whether `rank` has told that verdict; of those that are told among all, the last one.
  bool heard(Among among, uint32_t rank, uint16_t tag, uint64_t* out) const {
    const uint64_t word = flags_.flag(rank, line_of(among));
    *out = word & ((uint64_t{1} << tag_shift) - 1);
    return word >> tag_shift == tag;
  }

 private:
  static constexpr uint32_t tag_shift = 48;

  uint32_t line_of(Among among) const {
    return among == Among::all ? line::verdict + 2 * (told_ & 1) : line::lone_verdict;
  }

  FlagLines& flags_;
  uint32_t told_ = 0;  // verdicts told among all so far
};

}  // namespace tutti::shared
