// Ranks that end in the middle of a call, in every way that a process can end: how soon the others
// are told, and of whom. Each trial follows from its seed.
//
//   deaths [--trials N] [--seed FIRST] [--transports LIST] [--ranks LIST] [--endings LIST]
//          [--most-p99-ms MS] [--most-ms MS]
//
// Prints a line for each transport, number of ranks, ending, and whether the rank that ends has a
// forked child that lives on. Trial i of a line has the seed FIRST + i: a run that was broken off
// goes on from the seed that its last line names.
#include <dlfcn.h>
#include <fcntl.h>
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
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "tests/fault/trials.h"
#include "tests/support/sanitized.h"
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
constexpr int64_t hang_ms = 10'000;  // a call that lasts so long hangs

enum class Ending { kill, exit, quick_exit, exec, handler };

struct Name {
  Ending ending;
  const char* name;
};
constexpr Name endings[] = {{Ending::kill, "kill"},
                            {Ending::exit, "exit"},
                            {Ending::quick_exit, "quick_exit"},
                            {Ending::exec, "exec"},
                            {Ending::handler, "handler"}};

struct Options : TrialOptions {
  Options() : TrialOptions{5, 250, 2000} {}
  std::vector<Name> endings{std::begin(::endings), std::end(::endings)};
};

struct Case {
  std::string transport;
  int nranks;
  Ending ending;
  bool has_child;

  std::string text() const {
    return transport + ", " + std::to_string(nranks) + " ranks, " + ::endings[size_t(ending)].name +
           (has_child ? ", a child lives on" : "");
  }
};

struct Trial {
  uint64_t seed;
  int victim;
  size_t count;
  uint64_t delay_us;

  Trial(const Case& c, uint64_t seed) : seed(seed) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u);
    victim = int(random() % uint64_t(c.nranks));
    count = count_from(random);
    delay_us = random() % 20'000;
  }
};

// What the processes of a trial share.
struct Board {
  std::atomic<int> calling;      // ranks that have made a call
  std::atomic<int> go;           // the victim ends now
  std::atomic<uint64_t> end_ns;  // when it did
  std::atomic<int> child;        // its child's process
  struct Told {
    int status, rank;
    uint64_t ns;
    char text[400];
  } told[most_ranks];
};

Board* board = nullptr;

void end_by_handler(int) {
  board->end_ns = now_ns();
  exit(0);
}

// Runs beside the thread that makes the calls.
[[noreturn]] void end_when_told(Ending ending) {
  while (board->go == 0) usleep(100);
  board->end_ns = now_ns();
  if (ending == Ending::exit) exit(0);
  if (ending == Ending::quick_exit) quick_exit(0);
  char program[] = "sleep", time[] = "100";
  char* const arguments[] = {program, time, nullptr};
  execvp(program, arguments);
  _exit(80);
}

void fork_child() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  board->child = child;
}

[[noreturn]] void run_rank(const Case& c, const Trial& trial, int rank, const int* ids) {
  tutti_comm comm = nullptr;
  Board::Told& told = board->told[rank];
  told.status = join(c.transport, hang_ms, rank, c.nranks, ids, &comm);
  if (told.status != TUTTI_OK) {
    snprintf(told.text, sizeof(told.text), "no communicator: %s", tutti_last_error());
    _exit(93);
  }
  const bool is_victim = rank == trial.victim;
  std::vector<float> in(trial.count, 1), out(trial.count);
  for (uint64_t calls = 0; told.status == TUTTI_OK; ++calls) {
    if (calls == 1 && is_victim) {
      if (c.has_child) fork_child();
      if (c.ending == Ending::handler) signal(SIGTERM, end_by_handler);
      if (c.ending != Ending::kill && c.ending != Ending::handler)
        std::thread(end_when_told, c.ending).detach();
    }
    if (calls == 2) ++board->calling;
    told.status = tutti_allreduce(in.data(), out.data(), in.size(), TUTTI_FLOAT32, TUTTI_SUM, comm);
  }
  told.ns = now_ns();
  tutti_error error{};
  tutti_comm_last_error(comm, &error);
  told.rank = error.rank;
  snprintf(told.text, sizeof(told.text), "%s", error.text);
  tutti_comm_free(comm);
  _exit(0);
}

void wait_for(pid_t process) {
  while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Appends each survivor's latency; false, and a sentence, if one was told something else.
bool run(const Case& c, const Trial& trial, std::vector<double>* latencies_ms) {
  std::memset(static_cast<void*>(board), 0, sizeof(Board));
  for (int rank = 0; rank < c.nranks; ++rank) board->told[rank].status = -1;
  const std::vector<pid_t> processes =
      fork_ranks(c.nranks, [&](int rank, const int* ids) { run_rank(c, trial, rank, ids); });
  await(board->calling, c.nranks);
  usleep(useconds_t(trial.delay_us));
  const pid_t victim = processes[size_t(trial.victim)];
  if (c.ending == Ending::kill) {
    board->end_ns = now_ns();
    kill(victim, SIGKILL);
  } else if (c.ending == Ending::handler) {
    kill(victim, SIGTERM);
  } else {
    board->go = 1;
  }
  for (int rank = 0; rank < c.nranks; ++rank) {
    if (rank != trial.victim) wait_for(processes[size_t(rank)]);
  }
  kill(victim, SIGKILL);  // what exec() has made of it
  wait_for(victim);
  if (board->child != 0) kill(board->child, SIGKILL);

  bool right = true;
  for (int rank = 0; rank < c.nranks; ++rank) {
    if (rank == trial.victim) continue;
    const Board::Told& told = board->told[rank];
    const double ms = double(int64_t(told.ns - board->end_ns)) / 1e6;
    latencies_ms->push_back(ms);
    if (told.status == TUTTI_PEER_FAILED && told.rank == trial.victim) continue;
    right = false;
    printf(
        "%s, seed %llu: rank %d ended, but rank %d was told of rank %d (status %d) after %.1f ms: "
        "%s\n",
        c.text().c_str(), static_cast<unsigned long long>(trial.seed), trial.victim, rank,
        told.rank, told.status, ms, told.text);
  }
  return right;
}

bool run_all(const Case& c, const Options& options) {
  std::vector<double> latencies_ms;
  int wrong = 0;
  for (int i = 0; i < options.trials; ++i) {
    wrong += run(c, Trial(c, options.seed + uint64_t(i)), &latencies_ms) ? 0 : 1;
    tutti::testing::tell_progress(c.text(), i + 1, options);
  }
  const Spread ms = spread_of(std::move(latencies_ms), options);
  printf(
      "%-4s %2d ranks  %-10s %-9s  %5d trials  right %5d  ms: p50 %6.2f  p99 %6.2f  max %6.2f%s\n",
      c.transport.c_str(), c.nranks, endings[size_t(c.ending)].name,
      c.has_child ? "child" : "no child", options.trials, options.trials - wrong, ms.p50, ms.p99,
      ms.most, ms.remark());
  return wrong == 0 && !ms.late;
}

Options options_of(int argc, char** argv) {
  Options options;
  options.transports = tutti::testing::all_transports();
  read_options("deaths", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option != "--endings") return false;
                 options.endings = named_in(value, endings, "deaths", "ending");
                 return true;
               });
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Options options = options_of(argc, argv);
  board = tutti::testing::share<Board>();
  int failed = 0;
  for (const std::string& transport : options.transports) {
    for (const int nranks : options.ranks) {
      for (const Name& one : options.endings) {
        for (const bool has_child : {false, true})
          failed += run_all({transport, nranks, one.ending, has_child}, options) ? 0 : 1;
      }
    }
  }
  if (failed != 0) printf("%d lines are wrong or too late\n", failed);
  return failed == 0 ? 0 : 1;
}
