// Ranks that go on after a failure: how soon the survivors' next allreduce is done, and right. Each
// trial follows from its seed.
//
//   shrinks [--trials N] [--seed FIRST] [--transports LIST] [--ranks LIST] [--failures LIST]
//           [--most-p99-ms MS] [--most-ms MS]
//
// Prints a line for each transport, number of ranks and failure. Trial i of a line has the seed
// FIRST + i.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/fault/trials.h"
#include "tutti/tutti.h"

namespace {

using tutti::now_ns;
using tutti::testing::await;
using tutti::testing::count_from;
using tutti::testing::fork_ranks;
using tutti::testing::join;
using tutti::testing::named_in;
using tutti::testing::read_options;
using tutti::testing::Spread;
using tutti::testing::spread_of;
using tutti::testing::TrialOptions;

constexpr int most_ranks = 64;
constexpr int64_t hang_ms = 20'000;  // what lasts so long hangs

enum class Failure {
  one,        // a rank is killed in the middle of a call
  two,        // two at once
  meanwhile,  // another one while the survivors shrink
};

struct Name {
  Failure failure;
  const char* name;
};
constexpr Name failures[] = {
    {Failure::one, "one"}, {Failure::two, "two"}, {Failure::meanwhile, "meanwhile"}};

struct Options : TrialOptions {
  Options() : TrialOptions{5, 2000, 8000} {}
  std::vector<Name> failures{std::begin(::failures), std::end(::failures)};
};

struct Case {
  std::string transport;
  int nranks;
  Failure failure;

  std::string text() const {
    return transport + ", " + std::to_string(nranks) + " ranks, " +
           ::failures[size_t(failure)].name;
  }
  int deaths() const { return failure == Failure::one ? 1 : 2; }
};

struct Trial {
  uint64_t seed;
  int first, second;  // who dies
  size_t count;
  uint64_t delay_us, later_us;

  Trial(const Case& c, uint64_t seed) : seed(seed) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u);
    const auto n = uint64_t(c.nranks);
    first = int(random() % n);
    second = int((uint64_t(first) + 1 + random() % (n - 1)) % n);
    count = count_from(random);
    delay_us = random() % 20'000;
    later_us = random() % 12'000;
  }
  bool dies(const Case& c, int rank) const {
    return rank == first || (c.failure != Failure::one && rank == second);
  }
};

// What the processes of a trial share.
struct Board {
  std::atomic<int> calling;  // ranks that have made calls
  std::atomic<uint64_t> end_ns;
  struct Told {
    int failed, size;
    bool right, named;
    uint64_t ns;
    char text[400];
  } told[most_ranks];
};

Board* board = nullptr;

// The sum over the ranks of `comm` of 1 + the old rank, in every element.
bool sums(tutti_comm comm, int old_rank, size_t count, float* sum) {
  const std::vector<float> in(count, float(1 + old_rank));
  std::vector<float> out(count);
  if (tutti_allreduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm) != TUTTI_OK)
    return false;
  *sum = out[0];
  return std::all_of(out.begin(), out.end(), [&](float one) { return one == out[0]; });
}

void say(Board::Told& told, const char* what, tutti_comm comm) {
  tutti_error error{};
  tutti_comm_last_error(comm, &error);
  snprintf(told.text, sizeof(told.text), "%s: %s", what, error.text);
}

[[noreturn]] void run_rank(const Case& c, const Trial& trial, int rank, const int* ids) {
  tutti_comm comm = nullptr;
  Board::Told& told = board->told[rank];
  if (join(c.transport, hang_ms, rank, c.nranks, ids, &comm) != TUTTI_OK) {
    snprintf(told.text, sizeof(told.text), "no communicator: %s", tutti_last_error());
    _exit(93);
  }
  float sum = 0;
  for (uint64_t calls = 0; sums(comm, rank, trial.count, &sum); ++calls) {
    if (calls == 1) ++board->calling;
  }
  int failed[most_ranks];
  size_t n = 0;
  // The other ranks of a trial may all be dead. One that dies later is met in a call on the new
  // communicator.
  for (;;) {
    tutti_comm_failed_ranks(comm, failed, most_ranks, &n);
    told.named = told.named || (n > 0 && std::any_of(failed, failed + n,
                                                     [&](int one) { return trial.dies(c, one); }));
    tutti_comm made = nullptr;
    if (tutti_comm_shrink(comm, 0, &made) != TUTTI_OK) {
      say(told, "no new communicator", comm);
      _exit(94);
    }
    tutti_comm_free(comm);
    comm = made;
    tutti_comm_size(comm, &told.size);
    if (!sums(comm, rank, trial.count, &sum)) {
      if (c.failure == Failure::one) say(told, "the next call failed", comm);
      continue;
    }
    told.ns = now_ns();
    float expected = 0;
    for (int r = 0; r < c.nranks; ++r) expected += trial.dies(c, r) ? 0 : float(1 + r);
    if (sum == expected && told.size == c.nranks - c.deaths()) break;
    // The second is still there.
    while (sums(comm, rank, trial.count, &sum)) continue;
  }
  told.right = true;
  tutti_comm_free(comm);
  _exit(0);
}

// Appends each survivor's latency; false, and a sentence, if something was wrong.
bool run(const Case& c, const Trial& trial, std::vector<double>* latencies_ms) {
  std::memset(static_cast<void*>(board), 0, sizeof(Board));
  const std::vector<pid_t> processes =
      fork_ranks(c.nranks, [&](int rank, const int* ids) { run_rank(c, trial, rank, ids); });
  await(board->calling, c.nranks);
  usleep(useconds_t(trial.delay_us));
  kill(processes[size_t(trial.first)], SIGKILL);
  board->end_ns = now_ns();
  if (c.failure != Failure::one) {
    if (c.failure == Failure::meanwhile) usleep(useconds_t(trial.later_us));
    kill(processes[size_t(trial.second)], SIGKILL);
    board->end_ns = now_ns();
  }
  const uint64_t stuck_ns = tutti::deadline_after_ms(2 * hang_ms);
  bool right = true;
  for (int rank = 0; rank < c.nranks; ++rank) {
    int status = 0;
    while (waitpid(processes[size_t(rank)], &status, WNOHANG) == 0) {
      if (now_ns() > stuck_ns) kill(processes[size_t(rank)], SIGKILL);
      usleep(200);
    }
    if (trial.dies(c, rank)) continue;
    const Board::Told& told = board->told[rank];
    latencies_ms->push_back(double(int64_t(told.ns - board->end_ns)) / 1e6);
    if (status == 0 && told.right && told.named) continue;
    right = false;
    printf(
        "%s, seed %llu: ranks %d and %d die, but rank %d ended with status %x, %s %d ranks: %s\n",
        c.text().c_str(), static_cast<unsigned long long>(trial.seed), trial.first, trial.second,
        rank, unsigned(status), told.named ? "in the end with" : "not told, with", told.size,
        told.text);
  }
  return right;
}

bool run_all(const Case& c, const Options& options) {
  std::vector<double> latencies_ms;
  int wrong = 0;
  for (int i = 0; i < options.trials; ++i)
    wrong += run(c, Trial(c, options.seed + uint64_t(i)), &latencies_ms) ? 0 : 1;
  const Spread ms = spread_of(std::move(latencies_ms), options);
  printf("%-4s %2d ranks  %-9s  %5d trials  right %5d  ms: p50 %6.2f  p99 %6.2f  max %6.2f%s\n",
         c.transport.c_str(), c.nranks, failures[size_t(c.failure)].name, options.trials,
         options.trials - wrong, ms.p50, ms.p99, ms.most, ms.remark());
  return wrong == 0 && !ms.late;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Options options;
  options.transports = tutti::testing::all_transports();
  read_options("shrinks", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option != "--failures") return false;
                 options.failures = named_in(value, failures, "shrinks", "failure");
                 return true;
               });
  board = tutti::testing::share<Board>();
  int failed = 0;
  for (const std::string& transport : options.transports) {
    for (const int nranks : options.ranks) {
      for (const Name& one : options.failures) {
        const Case c{transport, nranks, one.failure};
        if (nranks > c.deaths()) failed += run_all(c, options) ? 0 : 1;
      }
    }
  }
  if (failed != 0) printf("%d lines are wrong or too late\n", failed);
  return failed == 0 ? 0 : 1;
}
