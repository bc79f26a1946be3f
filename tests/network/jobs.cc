// Whole jobs on a network that is simulated (network.h): ranks make a communicator over tcp, a
// random sequence of calls whose results are checked, and after a death or a cut one of those that
// are left. One fault a job, where a random rank makes a random system call. Each trial follows
// from its seed.
//
//   jobs [--trials N] [--seed FIRST] [--ranks LIST] [--faults LIST] [--most-p99-ms MS]
//        [--most-ms MS]
//
// Milliseconds are of the simulated clock, from the fault, or the beginning of the call if that is
// later, to the end of the call. Trial i of a line has the seed FIRST + i: a run that was broken
// off goes on from the seed that its last line names.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fault/job.h"
#include "tests/fault/trials.h"
#include "tests/network/network.h"
#include "tutti/tutti.h"

namespace {

using tutti::network::Fault;
using tutti::network::Kind;
using tutti::network::Network;
using tutti::testing::Job;
using tutti::testing::named_in;
using tutti::testing::read_options;
using tutti::testing::Spread;
using tutti::testing::spread_of;
using tutti::testing::TrialOptions;

constexpr int most_ranks = 16;
constexpr int calls_of_a_job = 10;
constexpr int most_calls = 300;  // of one whose fault ends it

struct Name {
  Kind kind;
  const char* name;
};
constexpr Name kinds[] = {
    {Kind::none, "none"},    {Kind::kill, "kill"},           {Kind::power_off, "power-off"},
    {Kind::pause, "pause"},  {Kind::hiccup, "hiccup"},       {Kind::unplug, "unplug"},
    {Kind::mute, "mute"},    {Kind::deafen, "deafen"},       {Kind::reset, "reset"},
    {Kind::flip, "flip"},    {Kind::leave_out, "leave-out"}, {Kind::repeat, "repeat"},
    {Kind::insert, "insert"}};

bool is_harmless(Kind kind) {
  return kind == Kind::none || kind == Kind::pause || kind == Kind::hiccup;
}
bool is_death(Kind kind) { return kind == Kind::kill || kind == Kind::power_off; }
bool is_cut(Kind kind) {
  return kind == Kind::unplug || kind == Kind::mute || kind == Kind::deafen;
}

struct Options : TrialOptions {
  Options() : TrialOptions{20, 2500, 3500} {}
  std::vector<Name> kinds{std::begin(::kinds), std::end(::kinds)};
};

struct Told {
  bool made = false;  // there was a communicator
  bool right = true;
  bool in_call = false;  // it ended there, and not where a communicator was made
  tutti_status status = TUTTI_OK;
  int rank = -1;
  tutti_status after = TUTTI_OK;  // of going on without the victim
  int32_t sum = 0;                // then one for each rank
  uint64_t began_ns = 0, ended_ns = 0;
  std::string text;
};

// A trial.
class Trial {
 public:
  Trial(int nranks, Kind kind, uint64_t seed)
      : nranks_(nranks), random_(seed * 0x9e3779b97f4a7c15u), told_(size_t(nranks)) {
    fault_.kind = kind;
    fault_.victim = int(random_() % uint64_t(nranks));
    // While the communicator is made, or later.
    fault_.call = 1 + random_() % (random_() % 2 == 0 ? 400 : 6'000);
    seed_ = random_();
  }

  void run() {
    Network network(seed_, nranks_, fault_);
    network_ = &network;
    network.run([this](int rank) { be(rank); });
    hung_ = network.hung();
    struck_ns_ = network.struck_ns();
    digest_ = network.digest();
    left_ = network.descriptors();
    network_ = nullptr;
  }

  const Fault& fault() const { return fault_; }
  const std::vector<Told>& told() const { return told_; }
  bool has_duplicate() const { return seed_ % 2 == 0; }
  // Of the duplicate: the ranks have their numbers from the end.
  bool is_reversed() const { return seed_ / 8 % 2 == 0; }
  // Whether all but the victim had a communicator.
  bool all_made() const {
    for (int rank = 0; rank < nranks_; ++rank) {
      if (rank != fault_.victim && !told_[size_t(rank)].made) return false;
    }
    return true;
  }
  // Whether none but the victim failed while the duplicate was made.
  bool all_duplicated() const {
    for (int rank = 0; rank < nranks_; ++rank) {
      const Told& told = told_[size_t(rank)];
      if (rank != fault_.victim && told.status != TUTTI_OK && !told.in_call) return false;
    }
    return true;
  }
  bool hung() const { return hung_; }
  bool struck() const { return struck_ns_ != 0; }
  uint64_t struck_ns() const { return struck_ns_; }
  uint64_t digest() const { return digest_; }
  size_t left() const { return left_; }

 private:
  void be(int rank) {
    Told& told = told_[size_t(rank)];
    if (rank == 0) {
      id_status_ = tutti_unique_id_create("eth0", &id_);
      has_id_ = true;
    }
    while (!has_id_) sched_yield();
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = "tcp";
    config.tuning = "none";
    tutti_comm comm = nullptr;
    told.began_ns = network_->now_ns();
    told.status = id_status_ != TUTTI_OK
                      ? id_status_
                      : tutti_comm_create_from_id(&id_, rank, nranks_, &config, &comm);
    told.made = told.status == TUTTI_OK;
    if (!told.made) {
      told.text = tutti_last_error();
      told.ended_ns = network_->now_ns();
      return;
    }
    tutti_comm second = nullptr;
    tutti_comm const at = work(rank, comm, &second, told);
    told.ended_ns = network_->now_ns();
    if (told.status != TUTTI_OK) {
      tell(at, told);
      if (at != comm && is_reversed() && told.rank >= 0) told.rank = nranks_ - 1 - told.rank;
      const bool lives = rank != fault_.victim || !is_death(fault_.kind);
      // Of a failure on one communicator those hear that are in a call on it; others would wait.
      if (second != nullptr) tutti_comm_abort(second, "a call on the other one has failed");
      if (lives && (is_death(fault_.kind) || is_cut(fault_.kind))) go_on(comm, told);
    }
    if (second != nullptr) tutti_comm_free(second);
    tutti_comm_free(comm);
  }

  // Calls on the communicator, and in half of the trials by turns on a duplicate that is made
  // after some, in a quarter in another order. The one that the last call was made on.
  tutti_comm work(int rank, tutti_comm comm, tutti_comm* second, Told& told) {
    const std::array<size_t, 4> counts{1, 100, 5'000, 12'000};
    Job job(comm, rank, nranks_, seed_, counts);
    std::optional<Job> other;
    const int duplicated = has_duplicate() ? 1 + int(seed_ / 2 % 4) : 0;
    const int calls = is_harmless(fault_.kind) ? calls_of_a_job : most_calls;
    tutti_comm at = comm;
    for (int call = 1; told.status == TUTTI_OK && call <= calls; ++call) {
      told.began_ns = network_->now_ns();
      told.in_call = call != duplicated;
      if (call == duplicated) {
        at = comm;
        told.status =
            is_reversed() ? tutti_comm_split(comm, 0, -rank, second) : tutti_comm_dup(comm, second);
        const int in_second = is_reversed() ? nranks_ - 1 - rank : rank;
        if (told.status == TUTTI_OK) other.emplace(*second, in_second, nranks_, seed_ + 1, counts);
      } else if (other && call % 2 == 0) {
        at = *second;
        told.status = other->make(call);
      } else {
        at = comm;
        told.status = job.make(call);
      }
    }
    // The last calls need every rank.
    if (told.status == TUTTI_OK) {
      at = comm;
      told.status = tutti_barrier(comm);
    }
    told.right = job.right() && (!other || other->right());
    return at;
  }

  static void tell(tutti_comm comm, Told& told) {
    tutti_error error{};
    tutti_comm_last_error(comm, &error);
    if (told.rank < 0) told.rank = error.rank;
    told.text += std::string(told.text.empty() ? "" : "; ") + error.text;
  }

  // The survivors go on without the victim.
  void go_on(tutti_comm comm, Told& told) const {
    tutti_comm fewer = nullptr;
    told.after = tutti_comm_shrink(comm, 20'000, &fewer);
    if (told.after != TUTTI_OK) return tell(comm, told);
    int32_t one = 1, sum = 0;
    told.after = tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, fewer);
    told.sum = sum;
    if (told.after != TUTTI_OK) tell(fewer, told);
    tutti_comm_free(fewer);
  }

  int nranks_;
  std::mt19937_64 random_;
  Fault fault_;
  uint64_t seed_ = 0;
  std::vector<Told> told_;
  tutti_unique_id id_{};
  tutti_status id_status_ = TUTTI_OK;
  bool has_id_ = false;
  Network* network_ = nullptr;
  bool hung_ = false;
  uint64_t struck_ns_ = 0, digest_ = 0;
  size_t left_ = 0;
};

// Whether a sentence tells of this rank; -1: of any.
bool names(const std::string& text, int rank) {
  const std::string name = "rank " + (rank < 0 ? std::string() : std::to_string(rank));
  size_t at = text.find(name);
  while (rank >= 0 && at != std::string::npos && at + name.size() < text.size() &&
         isdigit(text[at + name.size()]) != 0)
    at = text.find(name, at + 1);
  return at != std::string::npos;
}

// Whether a rank that has no communicator was never in touch with rank 0: one of them came too
// late.
bool has_never_met(const Told& told) {
  const auto says = [&](const char* words) { return told.text.find(words) != std::string::npos; };
  return says("was not to be reached") || says("did not come to rank 0") ||
         says("does not listen there any more");
}

// Whether the rank was told what has happened, and of whom, and went on where it may.
bool is_told(const Trial& trial, int rank, int nranks) {
  const Fault& fault = trial.fault();
  const Told& told = trial.told()[size_t(rank)];
  const bool is_victim = rank == fault.victim;
  if (!trial.struck() || is_harmless(fault.kind)) return told.status == TUTTI_OK;
  // Of what somebody does to one connection, or to bytes that nobody needs, not all hear.
  if (!is_death(fault.kind) && !is_cut(fault.kind)) return true;
  if (is_death(fault.kind) && is_victim) return true;  // nobody hears it
  if (told.status == TUTTI_OK) return false;
  // Of two that do not hear each other each one is told of the other, or of itself by that.
  const bool by_either = is_victim || nranks == 2;
  if (!told.made) return has_never_met(told) || names(told.text, by_either ? -1 : fault.victim);
  // Where one has no communicator, the others may be told of that one, and go on without it.
  if (!trial.all_made()) return true;
  // Who shrinks the communicator while others are in a call on it, because a call on the other one
  // failed, ends theirs.
  if (told.status == TUTTI_ABORTED) {
    if (!trial.has_duplicate()) return false;
  } else {
    if (told.status != TUTTI_PEER_FAILED) return false;
    // Of the duplicate that some have, those are told of one that has none.
    if (told.rank != fault.victim && !by_either && trial.all_duplicated()) return false;
  }
  // Those go on that are more than half, or half with rank 0, or know that the victim has died. A
  // kernel that has reset a connection does not say so: its process had not read all. With a
  // duplicate it may have reset those of the one and ended those of the other in order.
  if (nranks == 2 && rank == 1 && fault.kind == Kind::kill && trial.has_duplicate())
    return told.after != TUTTI_OK || told.sum == 1;
  const bool knows =
      fault.kind == Kind::kill && told.text.find("its host has reset it") == std::string::npos;
  const bool goes_on = nranks == 2 ? rank == 0 || knows : !is_victim;
  if (!goes_on) return told.after != TUTTI_OK;
  return told.after == TUTTI_OK && told.sum == nranks - 1;
}

// Whether what came with OK was right: also of those that have gone on, whoever they are.
bool is_right(const Trial& trial, int rank) {
  const Told& told = trial.told()[size_t(rank)];
  if (told.status == TUTTI_OK || told.after != TUTTI_OK || told.sum == 0) return told.right;
  const auto& all = trial.told();
  const auto with_it = std::count_if(all.begin(), all.end(), [&](const Told& one) {
    return one.after == TUTTI_OK && one.sum == told.sum;
  });
  const auto others = std::count_if(all.begin(), all.end(), [&](const Told& one) {
    return one.after == TUTTI_OK && one.sum != 0 && one.sum != told.sum;
  });
  return told.right && others == 0 && told.sum >= with_it;
}

struct Tally {
  int right = 0, struck = 0, hangs = 0, wrong = 0, otherwise = 0, left = 0;
  std::vector<double> latencies_ms;
};

// Whether it has to be told soon. Who has not met another one when that is lost waits for it until
// its limit, for it may come; and where only some have a communicator, these wait for a call.
bool is_timed(const Trial& trial, int rank) {
  const Fault& fault = trial.fault();
  const Told& told = trial.told()[size_t(rank)];
  if (told.status == TUTTI_OK || !trial.struck()) return false;
  if (is_death(fault.kind) && rank == fault.victim) return false;
  return told.made ? trial.all_made() : !has_never_met(told);
}

void look_at(const Trial& trial, int nranks, const char* name, uint64_t seed, Tally& tally) {
  const auto say = [&](int rank, const char* what) {
    const Told& told = trial.told()[size_t(rank)];
    printf(
        "%d ranks, %s of rank %d at its system call %llu%s, seed %llu: rank %d %s (%s, rank %d, "
        "%.1f ms): %s\n",
        nranks, name, trial.fault().victim, static_cast<unsigned long long>(trial.fault().call),
        trial.struck() ? "" : " (not reached)", static_cast<unsigned long long>(seed), rank, what,
        tutti_status_name(told.status), told.rank,
        trial.struck() ? double(int64_t(told.ended_ns - trial.struck_ns())) / 1e6 : 0,
        told.text.c_str());
  };
  bool clean = true;
  for (int rank = 0; rank < nranks; ++rank) {
    const Told& told = trial.told()[size_t(rank)];
    if (trial.hung()) {
      ++tally.hangs;
      say(rank, "hangs, or another one does");
    } else if (!is_right(trial, rank)) {
      ++tally.wrong;
      say(rank, "has a wrong result");
    } else if (!is_told(trial, rank, nranks)) {
      ++tally.otherwise;
      say(rank, "was told something else");
    } else {
      if (is_timed(trial, rank)) {
        const uint64_t from_ns = std::max(trial.struck_ns(), told.began_ns);
        tally.latencies_ms.push_back(double(int64_t(told.ended_ns - from_ns)) / 1e6);
      }
      continue;
    }
    clean = false;
  }
  if (trial.left() != 0) {
    ++tally.left;
    clean = false;
    say(trial.fault().victim, "or another one has left descriptors");
  }
  tally.right += clean;
  tally.struck += trial.struck();
}

// False: a trial that is made again goes another way.
bool is_repeatable(int nranks, Kind kind, uint64_t seed) {
  Trial once(nranks, kind, seed), again(nranks, kind, seed);
  once.run();
  again.run();
  return once.digest() == again.digest();
}

bool run_all(int nranks, const Name& kind, const Options& options) {
  Tally tally;
  for (int i = 0; i < options.trials; ++i) {
    const uint64_t seed = options.seed + uint64_t(i);
    Trial trial(nranks, kind.kind, seed);
    trial.run();
    look_at(trial, nranks, kind.name, seed, tally);
    tutti::testing::tell_progress(std::to_string(nranks) + " ranks, " + kind.name, i + 1, options);
  }
  const bool same = is_repeatable(nranks, kind.kind, options.seed);
  printf(
      "%2d ranks  %-9s  %6d trials  struck %6d  right %6d  hangs %d  wrong %d  told otherwise %d  "
      "left behind %d",
      nranks, kind.name, options.trials, tally.struck, tally.right, tally.hangs, tally.wrong,
      tally.otherwise, tally.left);
  bool late = false;
  if (!tally.latencies_ms.empty()) {
    const Spread ms = spread_of(std::move(tally.latencies_ms), options);
    late = ms.late && (is_death(kind.kind) || is_cut(kind.kind));
    printf("  ms: p50 %7.2f  p99 %7.2f  max %7.2f%s", ms.p50, ms.p99, ms.most,
           late ? "  TOO LATE" : "");
  }
  printf("%s\n", same ? "" : "  NOT REPEATABLE");
  return tally.right == options.trials && !late && same;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  // Ranks take turns: on one core that is faster.
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  sched_setaffinity(0, sizeof(core), &core);
  Options options;
  options.ranks = {2, 3, 4};
  read_options("jobs", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option != "--faults") return false;
                 options.kinds = named_in(value, kinds, "jobs", "fault");
                 return true;
               });
  // What a process does once, the first job does: so each trial goes its way in any run.
  Trial(2, Kind::none, 1).run();
  bool well = true;
  for (const int nranks : options.ranks)
    for (const Name& kind : options.kinds) well = run_all(nranks, kind, options) && well;
  return well ? 0 : 1;
}
