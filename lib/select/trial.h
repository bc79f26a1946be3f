// Which of several ways, all with the same bits, the calls of one class go: tried in its first
// calls in an order that all ranks know from the call's number, then settled, and looked at again
// now and then, because a machine's state changes. A pure state machine: no clock, no memory that
// ranks share, so that it is the same on all ranks as long as they tell it the same.
//
// What ranks tell each other of a look is one word each, a Verdict: how much longer each way took
// than the fastest one there. The way with the least sum over all ranks is taken, so that a rank
// which mostly waits for others weighs no more than they. When a look begins and how long it is
// depends on the number of calls alone: ranks stay in step also where one has settled later.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tutti {

// By way, in six bits each: 32 log2(time / the least time), at most 63, which is 3.9 times.
using Verdict = uint64_t;

class Trial {
 public:
  static constexpr uint32_t most_ways = 8;  // a Verdict uses 48 bits
  // After so many calls of a class the first look has been settled.
  static constexpr uint32_t calls_to_settle = 56;

  // Of at least one way. The first calls go the first one, which is settled until the first look
  // is. `long_calls`: each goes through more memory than it leaves in the caches, so that few calls
  // of a way tell enough, and there may be few of them.
  explicit Trial(uint32_t ways, bool long_calls = false);

  uint32_t ways() const { return ways_; }
  // The way that is settled for now.
  uint32_t settled() const { return settled_; }
  // Begins a call of the class: the way that it goes.
  uint32_t begin();
  // Whether the call that has begun is timed: then tell() must be called when it has ended.
  bool is_timed() const { return timed_; }
  void tell(uint64_t call_ns);
  // Whether a look had ended before the call that has begun, and is not settled: then this rank's
  // verdict must be told to all in that call, and settle() called at its end with those of all.
  bool is_open() const { return open_; }
  uint32_t look() const { return looks_; }  // the number of the last one, from 1
  Verdict verdict() const;
  void settle(std::span<const Verdict> all);

  // The median time of a way in the last look that tried it, in nanoseconds; 0: not known.
  uint64_t median_ns(uint32_t way) const;

 private:
  // How often each way goes, in a row. Early calls of a stretch find the caches as another way has
  // left them, and mostly are not timed.
  struct Look {
    uint32_t rounds, stretch, untimed;
  };
  struct Pace {
    Look first, later, brief;
    uint32_t first_pause, later_pause;  // calls from look to look
    bool second_tries_all;              // also what took 1.75 times as long as the settled way
  };
  // Where there are two samples the shorter counts, so that one call which was held up decides
  // nothing: of long calls the first stretch is timed as a whole for that.
  // Later looks of short calls are long enough that a ring which is passed through several times
  // has come into the caches; in few of them a slow way may look fast.
  static constexpr Pace of_short_calls{.first = {.rounds = 2, .stretch = 3, .untimed = 1},
                                       .later = {.rounds = 1, .stretch = 16, .untimed = 8},
                                       .brief = {.rounds = 1, .stretch = 3, .untimed = 1},
                                       .first_pause = 256,
                                       .later_pause = 4096,
                                       .second_tries_all = false};
  static constexpr Pace of_long_calls{.first = {.rounds = 1, .stretch = 2, .untimed = 0},
                                      .later = {.rounds = 1, .stretch = 3, .untimed = 1},
                                      .brief = {.rounds = 1, .stretch = 2, .untimed = 1},
                                      .first_pause = 256,
                                      .later_pause = 512,
                                      .second_tries_all = true};
  static_assert(of_short_calls.first.rounds * most_ways * of_short_calls.first.stretch <
                calls_to_settle);
  static constexpr uint32_t most_samples =
      of_short_calls.later.stretch - of_short_calls.later.untimed;
  static_assert(of_short_calls.first.rounds *
                    (of_short_calls.first.stretch - of_short_calls.first.untimed) <=
                most_samples);
  // The second look and each fourth one are thorough. In the others a way that took 1.25 times as
  // long as the settled one has few calls; one that took 1.75 times as long has few in those, of
  // short calls not in the second, and none in the others. The settled one goes in their place.
  static constexpr uint32_t far = 10, hopeless = 26;
  // Another way must be better than the settled one by 4 %.
  static constexpr uint32_t margin = 2;

  void begin_look();
  // How a way is tried in the look that begins; null: not at all.
  const Look* look_of(uint32_t way) const;
  bool tries(uint32_t way) const { return how_[way] != nullptr; }

  const Pace* pace_;
  uint32_t ways_;
  uint32_t settled_ = 0;
  uint32_t looks_ = 0;
  uint32_t steps_left_ = 0;  // of the look
  uint32_t until_look_ = 0;  // calls
  bool looking_ = false, timed_ = false, open_ = false;
  std::array<const Look*, most_ways> how_{};  // of the look
  uint32_t current_ = 0;                      // the way of the call that runs
  struct Samples {
    std::array<uint64_t, most_samples> ns{};
    uint32_t count = 0;
  };
  std::array<Samples, most_ways> samples_;
  std::array<uint64_t, most_ways> means_{};  // of all ranks' verdicts, when last tried
};

// The verdicts' part for a way.
constexpr uint32_t part_of(Verdict verdict, uint32_t way) {
  return uint32_t(verdict >> 6 * way) & 0x3f;
}

}  // namespace tutti
