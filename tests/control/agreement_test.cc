// Whole jobs of ranks that decide who is left, in one thread and in virtual time: each seed gives
// who dies and when, who is cut off from whom, who comes late or never, and how long each message
// is under way. All survivors decide alike or end with an error, in time, and never go on in two
// groups.
#include "lib/control/agreement.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>

#include "lib/base/clock.h"
#include "tests/support/sanitized.h"

namespace tutti {
namespace {

constexpr uint64_t milli = 1'000'000;
constexpr uint64_t limit_ns = 30'000 * milli;

struct Faults {
  int deaths = 0;
  int deaths_in_sending = 0;  // at most: of a rank that has sent a part of what it has to
  bool cuts = false;          // of groups from each other, or of pairs
  bool one_way = false;       // what one host of three or more sends is lost, or what it is sent
  bool slowness = false;      // ranks come late, but before others lose patience
  bool lateness = false;      // after that, or never
};

class Job {
 public:
  Job(uint64_t seed, const Faults& faults) : random_(seed * 0x9e3779b97f4a7c15u + 1) {
    nranks_ = int(2 + random_() % 7);
    dies_sending_ = faults.deaths_in_sending;
    ranks_.resize(size_t(nranks_));
    cut_ns_.assign(line(nranks_, 0), never_ns);
    busy_until_.resize(line(nranks_, 0));
    for (int rank = 0; rank < nranks_; ++rank) {
      Rank& one = ranks_[size_t(rank)];
      one.presence.assign(size_t(nranks_), Seen::here);
      one.value = random_() | random_();
      uint64_t comes_ns = random_() % (20 * milli);
      if (faults.slowness) comes_ns += random_() % (limit_ns * 2 / 5);
      if (faults.lateness && random_() % 4 == 0) {
        one.late = true;
        comes_ns += random_() % (2 * limit_ns);
      }
      if (!one.late || random_() % 2 == 0) at(comes_ns, [this, rank] { come(rank); });
    }
    for (int i = 0; i < faults.deaths; ++i) {
      const int rank = int(random_() % uint64_t(nranks_));
      const uint64_t most = random_() % 3 == 0 ? 2000 * milli : 60 * milli;
      at(random_() % most, [this, rank] { die(rank); });
    }
    if (faults.cuts) {
      const uint64_t when = random_() % (60 * milli), side = random_();
      const int pair = random_() % 2 == 0 ? int(random_() % uint64_t(nranks_ * nranks_)) : -1;
      for (int a = 0; a < nranks_; ++a) {
        for (int b = 0; b < nranks_; ++b) {
          const bool apart = ((side >> a) & 1) != ((side >> b) & 1);
          const bool cut = pair < 0 ? apart : a * nranks_ + b == pair || b * nranks_ + a == pair;
          if (a != b && cut) cut_off(a, b, when);
        }
      }
    }
    if (faults.one_way && nranks_ > 2) cut_one_way();
  }

  void run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at_ns;
      event.what();
    }
  }

  // What must hold after every run.
  void check(uint64_t seed, const Faults& faults) {
    const RankSet* chosen = nullptr;
    int successes = 0;
    for (int rank = 0; rank < nranks_; ++rank) {
      const Rank& one = ranks_[size_t(rank)];
      if (one.dead) continue;
      EXPECT_TRUE(one.phase == Phase::away || one.phase == Phase::done)
          << "seed " << seed << ": rank " << rank << " hangs";
      if (!one.succeeded) {
        EXPECT_TRUE(one.phase == Phase::away || faults.cuts || faults.lateness ||
                    is_left_out(rank) || (faults.one_way && faults.deaths > 0))
            << "seed " << seed << ": rank " << rank << ": " << one.why.text();
        continue;
      }
      ++successes;
      EXPECT_TRUE(one.members.has(rank)) << "seed " << seed;
      if (chosen == nullptr) chosen = &one.members;
      EXPECT_EQ(*chosen, one.members)
          << "seed " << seed << ": rank " << rank << " goes on with " << one.members.describe()
          << ", another one with " << chosen->describe();
    }
    if (faults.cuts || faults.lateness || (faults.one_way && faults.deaths > 0)) return;
    int alive = 0;
    for (int rank = 0; rank < nranks_; ++rank) {
      const Rank& one = ranks_[size_t(rank)];
      alive += !one.dead && (!is_left_out(rank) || one.succeeded) ? 1 : 0;
    }
    EXPECT_EQ(successes, alive) << "seed " << seed;
  }
  int decisions() const { return decisions_; }

 private:
  enum class Phase { away, deciding, making, done };
  enum class Seen { here, dead, lost, cut_off };
  struct Letter {
    int from;
    std::string text;
  };
  struct Rank {
    Phase phase = Phase::away;
    bool dead = false, late = false, succeeded = false;
    uint64_t value = 0, ends_ns = 0, woken_ns = never_ns;
    uint32_t number = 1;
    RankSet members;
    bool attempted = false, made = false;
    std::unique_ptr<Agreement> running;
    std::deque<Letter> later;
    std::vector<Seen> presence;
    Status why;
  };
  struct Event {
    uint64_t at_ns, order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };

  void at(uint64_t when, std::function<void()> what) {
    events_.push({std::max(when, now_), order_++, std::move(what)});
  }
  uint64_t& channel(int from, int to) { return busy_until_[line(from, to)]; }
  size_t line(int from, int to) const { return size_t(from) * size_t(nranks_) + size_t(to); }
  bool is_cut(int from, int to) const { return now_ >= cut_ns_[line(from, to)]; }

  uint64_t delay() {
    return random_() % 50 == 0 ? random_() % (500 * milli) : random_() % (2 * milli);
  }
  // In order, and after some time; what the other end of a cut line sends does not come.
  void carry(int from, int to, std::function<void()> what) {
    uint64_t& until = channel(from, to);
    until = std::max(until + 1, now_ + delay());
    at(until, [this, from, to, what = std::move(what)] {
      if (!is_cut(from, to)) what();
    });
  }

  bool is_left_out(int rank) const { return left_out_ && left_out_->has(rank); }
  // A host with some of the ranks; each of the others, two or more, is on one of its own.
  void cut_one_way() {
    const uint64_t when = random_() % (60 * milli);
    const bool deaf = random_() % 2 == 0;
    RankSet host(nranks_);
    for (uint64_t left = 1 + random_() % uint64_t(nranks_ - 2); host.count() < left;)
      host.add(int(random_() % uint64_t(nranks_)));
    host_ = host;
    const size_t count = host.count(), others = size_t(nranks_) - count;
    left_out_ =
        count > others || (count == others && host.has(0)) ? RankSet::all(nranks_) - host : host;
    for (const int other : (RankSet::all(nranks_) - host).ranks()) {
      find(other, host, Seen::lost, when);
      for (const int one : host.ranks()) {
        find(one, RankSet::of(other, nranks_), Seen::cut_off, when);
        cut_ns_[deaf ? line(other, one) : line(one, other)] = when;
      }
    }
  }
  void cut_off(int a, int b, uint64_t when) {
    cut_ns_[line(a, b)] = when;
    find(b, RankSet::of(a, nranks_), Seen::lost, when);
  }
  // Some time after the cut.
  void find(int rank, const RankSet& others, Seen seen, uint64_t when) {
    at(when + 1000 * milli + random_() % (500 * milli),
       [this, rank, others, seen] { see(rank, others, seen); });
  }

  void die(int rank) {
    Rank& one = ranks_[size_t(rank)];
    if (one.dead) return;
    one.dead = true;
    for (int other = 0; other < nranks_; ++other) {
      if (other == rank) continue;
      carry(rank, other,
            [this, rank, other] { see(other, RankSet::of(rank, nranks_), Seen::dead); });
    }
  }

  void see(int rank, const RankSet& others, Seen seen) {
    Rank& one = ranks_[size_t(rank)];
    if (one.dead) return;
    RankSet found(nranks_);
    for (const int other : others.ranks()) {
      if (one.presence[size_t(other)] != Seen::here) continue;
      one.presence[size_t(other)] = seen;
      found.add(other);
    }
    if (found.empty() || one.phase != Phase::deciding) return;
    tell(one, found);
    look(rank);
  }

  void tell(Rank& one, const RankSet& gone) {
    RankSet lost(nranks_);
    bool is_cut_off = false;
    for (const int other : gone.ranks()) {
      const Seen seen = one.presence[size_t(other)];
      if (seen == Seen::dead) {
        one.running->died(other, now_);
      } else {
        lost.add(other);
        is_cut_off = is_cut_off || seen == Seen::cut_off;
      }
    }
    if (is_cut_off) {
      RankSet near = *host_;
      for (const int other : host_->ranks())
        if (one.presence[size_t(other)] != Seen::here) near.remove(other);
      one.running->cut_off(lost, near, now_);
    } else {
      one.running->lost(lost, now_);
    }
  }

  void come(int rank) {
    Rank& one = ranks_[size_t(rank)];
    if (one.dead) return;
    one.members = RankSet::all(nranks_);
    one.ends_ns = now_ + limit_ns;
    decide(rank);
  }

  void decide(int rank) {
    Rank& one = ranks_[size_t(rank)];
    Agreement::Question question;
    question.matter = Matter::shrink;
    question.number = one.number;
    question.members = one.members;
    question.nranks = nranks_;
    question.self = rank;
    question.value = one.attempted ? uint64_t(one.made) : one.value;
    question.limit_ns = one.ends_ns;
    one.phase = Phase::deciding;
    one.running = std::make_unique<Agreement>(question, now_);
    for (Letter& letter : std::exchange(one.later, {})) deliver(letter.from, rank, letter.text);
    RankSet gone(nranks_);
    for (int other = 0; other < nranks_; ++other) {
      if (one.presence[size_t(other)] != Seen::here) gone.add(other);
    }
    if (one.phase == Phase::deciding) tell(one, gone);
    if (one.phase == Phase::deciding) look(rank);
  }

  void deliver(int from, int to, const std::string& text) {
    Rank& one = ranks_[size_t(to)];
    if (one.dead || one.phase == Phase::done || one.presence[size_t(from)] != Seen::here) return;
    uint32_t number = 0;
    ASSERT_TRUE(Agreement::number_of(text, &number).ok());
    if (number < one.number) return;
    if (number > one.number || one.phase != Phase::deciding) {
      one.later.push_back({from, text});
      return;
    }
    one.running->receive(from, text, now_);
    look(to);
  }

  // Sends what there is to send, of which a rank that dies meanwhile sends a part, and goes on.
  void look(int rank) {
    Rank& one = ranks_[size_t(rank)];
    for (const Agreement::Letter& letter : one.running->take_letters()) {
      if (one.dead) return;
      if (one.presence[size_t(letter.to)] == Seen::here) {
        const int to = letter.to;
        carry(rank, to, [this, rank, to, text = letter.text] { deliver(rank, to, text); });
      }
      if (dies_sending_ > 0 && random_() % 40 == 0) {
        --dies_sending_;
        die(rank);
      }
    }
    if (one.dead) return;
    if (!one.running->ended()) {
      const uint64_t due = one.running->due_ns();
      if (due >= one.woken_ns) return;
      one.woken_ns = due;
      at(due, [this, rank, due] {
        Rank& there = ranks_[size_t(rank)];
        if (there.woken_ns != due) return;
        there.woken_ns = never_ns;
        if (there.dead || there.phase != Phase::deciding) return;
        there.running->advance(now_);
        look(rank);
      });
      return;
    }
    EXPECT_LE(now_, one.ends_ns + milli);
    one.woken_ns = never_ns;
    ++one.number;
    if (one.running->verdict() == nullptr) {
      one.why = one.running->failed();
      return end(rank);
    }
    ++decisions_;
    const Decision verdict = *one.running->verdict();
    if (!one.attempted) check_value(verdict);
    if (one.attempted && verdict.present == one.members && verdict.value == 1) {
      one.succeeded = true;
      return end(rank);
    }
    one.members = verdict.present;
    one.attempted = true;
    one.phase = Phase::making;
    at(now_ + random_() % (5 * milli), [this, rank] { make(rank); });
  }

  void check_value(const Decision& verdict) {
    uint64_t value = ~uint64_t{0};
    for (const int rank : verdict.present.ranks()) value &= ranks_[size_t(rank)].value;
    EXPECT_EQ(verdict.value, value);
  }

  // Making the communicator goes well on some ranks perhaps, where one has gone meanwhile.
  void make(int rank) {
    Rank& one = ranks_[size_t(rank)];
    if (one.dead) return;
    bool well = true;
    for (const int member : one.members.ranks()) {
      if (member == rank) continue;
      const Rank& other = ranks_[size_t(member)];
      const bool whole = !other.dead && one.presence[size_t(member)] == Seen::here &&
                         !is_cut(member, rank) && !is_cut(rank, member);
      well = well && whole;
    }
    one.made = well || random_() % 3 == 0;
    decide(rank);
  }

  void end(int rank) {
    Rank& one = ranks_[size_t(rank)];
    one.phase = Phase::done;
    const Seen as = one.succeeded ? Seen::lost : Seen::dead;
    at(now_ + random_() % (50 * milli), [this, rank, as] {
      for (int other = 0; other < nranks_; ++other) {
        if (other != rank && !ranks_[size_t(rank)].dead)
          carry(rank, other,
                [this, rank, other, as] { see(other, RankSet::of(rank, nranks_), as); });
      }
    });
  }

  std::mt19937_64 random_;
  int nranks_ = 0;
  int dies_sending_ = 0;
  std::optional<RankSet> host_;      // whose ranks are cut off from all others, in one direction
  std::optional<RankSet> left_out_;  // those of the two sides that may not go on
  std::vector<Rank> ranks_;
  std::vector<uint64_t> cut_ns_;
  std::vector<uint64_t> busy_until_;
  std::priority_queue<Event> events_;
  uint64_t now_ = 0, order_ = 0;
  int decisions_ = 0;
};

constexpr int few = 3000, many = 300'000;

void run_all(int seeds, const Faults& faults) {
  int decisions = 0;
  if (tutti::testing::sanitized) seeds /= 10;
  for (int seed = 0; seed < seeds && !::testing::Test::HasFailure(); ++seed) {
    Job job(uint64_t(seed), faults);
    job.run();
    job.check(uint64_t(seed), faults);
    decisions += job.decisions();
  }
  EXPECT_GE(decisions, seeds);
  printf("%d jobs, %d ranks decided\n", seeds, decisions);
}

constexpr Faults no_faults{}, one_dies{.deaths = 1}, some_die{.deaths = 3, .deaths_in_sending = 2},
    cut_off{.cuts = true}, cut_off_and_die{.deaths = 2, .deaths_in_sending = 1, .cuts = true},
    one_way{.one_way = true}, one_way_and_die{.deaths = 2, .deaths_in_sending = 1, .one_way = true},
    slow{.slowness = true}, late{.lateness = true},
    everything{.deaths = 2, .deaths_in_sending = 1, .cuts = true, .lateness = true};

TEST(Agreement, WithoutFaultsAllGoOn) { run_all(few, no_faults); }

TEST(Agreement, AllThatLiveGoOnTogetherWhoeverDies) {
  run_all(few, one_dies);
  run_all(few, some_die);
}

TEST(Agreement, OfRanksThatAreCutOffFromEachOtherAtMostOneGroupGoesOn) {
  run_all(few, cut_off);
  run_all(few, cut_off_and_die);
}

TEST(Agreement, AHostThatIsCutOffInOneDirectionIsLeftOutAloneUnlessItsRanksMayGoOn) {
  run_all(few, one_way);
  run_all(few, one_way_and_die);
}

TEST(Agreement, WhoComesBeforeHalfOfTheTimeIsOverIsInIt) { run_all(few, slow); }

TEST(Agreement, NobodyWaitsLongForTheLateAndTheseDoNotGoOnAlone) {
  run_all(few, late);
  run_all(few, everything);
}

TEST(LongAgreement, OfVeryManyJobs) {
  for (const Faults& faults : {one_dies, some_die, cut_off, cut_off_and_die, one_way,
                               one_way_and_die, slow, late, everything})
    run_all(many, faults);
}

// ---------------------------------------------------------------- by hand

Agreement::Question question_of(int self, Matter matter, int nranks = 2) {
  Agreement::Question question;
  question.matter = matter;
  question.number = 1;
  question.members = RankSet::all(nranks);
  question.nranks = nranks;
  question.self = self;
  question.value = 1;
  question.limit_ns = limit_ns;
  return question;
}

TEST(Agreement, WhoAsksSomethingElseIsAMismatch) {
  Agreement shrinks(question_of(0, Matter::shrink), 0), agrees(question_of(1, Matter::agree), 0);
  for (const Agreement::Letter& letter : shrinks.take_letters()) agrees.receive(0, letter.text, 1);
  EXPECT_EQ(agrees.failed().code(), TUTTI_MISMATCH);
  EXPECT_EQ(agrees.failed().text(),
            "rank 1 calls tutti_comm_agree(), but rank 0 calls "
            "tutti_comm_shrink()");
}

TEST(Agreement, OfTwoThatDoNotReachEachOtherTheLowerGoesOn) {
  Agreement lower(question_of(0, Matter::shrink), 0), higher(question_of(1, Matter::shrink), 0);
  lower.lost(RankSet::of(1, 2), 1);
  higher.lost(RankSet::of(0, 2), 1);
  ASSERT_NE(lower.verdict(), nullptr);
  EXPECT_EQ(lower.verdict()->present.ranks(), std::vector<int>{0});
  EXPECT_EQ(higher.failed().code(), TUTTI_ABORTED);
  EXPECT_NE(higher.failed().text().find("too few ranks are left"), std::string::npos)
      << higher.failed().text();
}

TEST(Agreement, OfTwoTheSurvivorGoesOn) {
  Agreement survivor(question_of(1, Matter::shrink), 0);
  survivor.died(0, 1);
  ASSERT_NE(survivor.verdict(), nullptr);
  EXPECT_EQ(survivor.verdict()->present.ranks(), std::vector<int>{1});
}

TEST(Agreement, AnyBytesAreTakenOrRefused) {
  std::mt19937_64 random(1);
  Agreement model(question_of(0, Matter::shrink, 3), 0);
  const std::string good = model.take_letters().front().text;
  for (int i = 0; i < 20'000; ++i) {
    Agreement one(question_of(1, Matter::shrink, 3), 0);
    std::string text = good.substr(0, i % 4 == 0 ? random() % good.size() : good.size());
    for (uint64_t flips = random() % 4; flips-- > 0 && !text.empty();)
      text[random() % text.size()] = char(random());
    uint32_t number = 0;
    if (!Agreement::number_of(text, &number).ok()) continue;
    one.receive(0, text, 1);
    if (one.verdict() != nullptr) {
      EXPECT_TRUE(one.verdict()->present.has(1));
    }
  }
}

}  // namespace
}  // namespace tutti
