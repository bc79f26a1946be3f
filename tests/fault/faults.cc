// A mixture of faults, one a trial, in jobs whose ranks make a random sequence of calls and check
// every result. A supervisor strikes at a labelled point and looks after everything from outside:
// that all processes end, that nothing wrong came with OK, that the survivors were told what has
// happened and of whom, and that nothing is left behind. Each trial follows from its seed.
//
//   faults [--trials N] [--seed FIRST] [--transports LIST] [--ranks LIST] [--faults LIST]
//          [--most-p99-ms MS] [--most-ms MS]
//
//   kill   the victim is killed
//   stop   it is stopped for good, and the calls have a limit of 0.7 s
//   pause  it is stopped for up to 400 ms, of which nobody may be told
//   abort  a thread of it ends the communicator
//
// Points: `enters` a call of that number, where TUTTI_FAULT strikes; `in` one, some time after it
// has been begun; `between` calls, in the program. Trial i of a line has the seed FIRST + i: a run
// that was broken off goes on from the seed that its last line names.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "tests/fault/job.h"
#include "tests/fault/trials.h"
#include "tutti/tutti.h"

namespace {

using tutti::deadline_after_ms;
using tutti::now_ns;
using tutti::testing::fork_ranks;
using tutti::testing::is_stopped;
using tutti::testing::Job;
using tutti::testing::join;
using tutti::testing::named_in;
using tutti::testing::read_options;
using tutti::testing::Spread;
using tutti::testing::spread_of;
using tutti::testing::TrialOptions;

constexpr int most_ranks = 16;
constexpr int calls_of_a_job = 60;
constexpr int64_t limit_ms = 15'000;  // of a call
constexpr int64_t stopped_limit_ms = 700;
constexpr int64_t watchdog_ms = 40'000;  // a job that lasts so long hangs

enum class Kind { kill, stop, pause, abort };
enum class Point { enters, in, between };
constexpr const char* points[] = {"enters", "in", "between"};

struct Name {
  Kind kind;
  const char* name;
};
constexpr Name kinds[] = {
    {Kind::kill, "kill"}, {Kind::stop, "stop"}, {Kind::pause, "pause"}, {Kind::abort, "abort"}};

struct Options : TrialOptions {
  Options() : TrialOptions{10, 2000, 5000} {}
  std::vector<Name> kinds{std::begin(::kinds), std::end(::kinds)};
};

struct Case {
  std::string transport;
  int nranks;
  Kind kind;

  const char* name() const { return ::kinds[size_t(kind)].name; }
  std::string text() const {
    return transport + ", " + std::to_string(nranks) + " ranks, " + name();
  }
};

struct Trial {
  uint64_t seed;
  int victim, call;  // the call, from 1, that the point is about
  Point point;
  uint64_t delay_us, pause_us;

  Trial(const Case& c, uint64_t seed) : seed(seed) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u);
    victim = int(random() % uint64_t(c.nranks));
    call = 2 + int(random() % (calls_of_a_job - 10));
    point = Point(random() % 3);
    if (point == Point::enters && c.kind == Kind::abort) point = Point::in;
    delay_us = random() % 3'000;
    pause_us = 5'000 + random() % 395'000;
  }
};

// What the processes of a trial share.
struct Board {
  std::atomic<int> at[most_ranks];  // the call, from 1, that the rank is in or makes next
  std::atomic<bool> reached;        // the victim is where `between` strikes
  std::atomic<bool> strike;         // it aborts now
  struct Told {
    std::atomic<bool> wrong;
    int status, rank;
    uint64_t ns;
    char text[500];
  } told[most_ranks];
};

Board* board = nullptr;

// ---------------------------------------------------------------- a rank

void strike_between(Kind kind, tutti_comm comm) {
  board->reached = true;
  if (kind == Kind::abort) {
    tutti_comm_abort(comm, "as the trial wants it");
  } else {
    raise(kind == Kind::kill ? SIGKILL : SIGSTOP);
  }
}

[[noreturn]] void run_rank(const Case& c, const Trial& trial, int rank, const int* ids) {
  const bool is_victim = rank == trial.victim;
  if (is_victim && trial.point == Point::enters) {
    const std::string fault = std::string(c.kind == Kind::kill ? "kill" : "stop") + " at call " +
                              std::to_string(trial.call);
    setenv("TUTTI_FAULT", fault.c_str(), 1);
  }
  Board::Told& told = board->told[rank];
  tutti_comm comm = nullptr;
  told.status = join(c.transport, c.kind == Kind::stop ? stopped_limit_ms : limit_ms, rank,
                     c.nranks, ids, &comm);
  if (told.status != TUTTI_OK) {
    snprintf(told.text, sizeof(told.text), "no communicator: %s", tutti_last_error());
    _exit(93);
  }
  std::thread aborts;
  if (is_victim && c.kind == Kind::abort) {
    aborts = std::thread([comm] {
      while (!board->strike) usleep(100);
      tutti_comm_abort(comm, "as the trial wants it");
    });
  }
  Job job(comm, rank, c.nranks, trial.seed);
  // Of a fault that ends the calls they go on until it has. The last calls need every rank.
  const bool goes_on = c.kind != Kind::pause;
  for (int call = 1; told.status == TUTTI_OK && (goes_on || call <= calls_of_a_job + 2); ++call) {
    if (is_victim && trial.point == Point::between && call == trial.call)
      strike_between(c.kind, comm);
    board->at[rank] = call;
    told.status = goes_on || call <= calls_of_a_job ? job.make(call) : tutti_barrier(comm);
  }
  told.ns = now_ns();
  told.wrong = !job.right();
  tutti_error error{};
  tutti_comm_last_error(comm, &error);
  told.rank = error.rank;
  snprintf(told.text, sizeof(told.text), "%s", error.text != nullptr ? error.text : "");
  board->strike = true;
  if (aborts.joinable()) aborts.join();
  tutti_comm_free(comm);
  _exit(0);
}

// ---------------------------------------------------------------- the supervisor

// Until the victim is at the point; then the fault, or what follows it. When it was struck.
uint64_t strike(const Case& c, const Trial& trial, pid_t victim) {
  const uint64_t give_up_ns = deadline_after_ms(watchdog_ms / 2);
  const auto until = [&](auto&& there) {
    while (!there() && now_ns() < give_up_ns) usleep(50);
  };
  const bool stops = c.kind == Kind::stop || c.kind == Kind::pause;
  if (trial.point == Point::in) {
    until([&] { return board->at[trial.victim] >= trial.call; });
    usleep(useconds_t(trial.delay_us));
    if (c.kind == Kind::abort) {
      board->strike = true;
    } else {
      kill(victim, stops ? SIGSTOP : SIGKILL);
    }
  } else if (trial.point == Point::between) {
    until([&] { return board->reached.load(); });
  }
  if (stops) {
    until([&] { return is_stopped(victim); });
  } else if (trial.point == Point::enters) {
    until([&] {
      siginfo_t info{};
      waitid(P_PID, id_t(victim), &info, WEXITED | WNOHANG | WNOWAIT);
      return info.si_pid == victim;
    });
  }
  const uint64_t struck_ns = now_ns();
  if (c.kind == Kind::pause) {
    usleep(useconds_t(trial.pause_us));
    kill(victim, SIGCONT);
  }
  return struck_ns;
}

// Whether the process ends before `limit_ns`.
bool ends(pid_t process, uint64_t limit_ns) {
  while (now_ns() < limit_ns) {
    const pid_t ended = waitpid(process, nullptr, WNOHANG);
    if (ended == process || (ended < 0 && errno == ECHILD)) return true;
    usleep(200);
  }
  return false;
}

struct Tally {
  int right = 0, hangs = 0, wrong = 0, untold = 0, left = 0;
  std::vector<double> latencies_ms;
  bool clean() const { return hangs + wrong + untold + left == 0; }
};

// Whether the rank has been told what the trial is about.
bool is_told(const Case& c, const Trial& trial, const Board::Told& told) {
  switch (c.kind) {
    case Kind::kill:
      return told.status == TUTTI_PEER_FAILED && told.rank == trial.victim;
    case Kind::stop:
      return told.status == TUTTI_TIMEOUT && told.rank == trial.victim;
    case Kind::abort:
      return told.status == TUTTI_ABORTED && told.rank == trial.victim;
    default:
      return told.status == TUTTI_OK;
  }
}

void run(const Case& c, const Trial& trial, const std::string& folder, Tally* tally) {
  std::memset(static_cast<void*>(board), 0, sizeof(Board));
  for (int rank = 0; rank < c.nranks; ++rank) board->told[rank].status = -1;
  const uint64_t limit_ns = deadline_after_ms(watchdog_ms);
  const std::vector<pid_t> processes =
      fork_ranks(c.nranks, [&](int rank, const int* ids) { run_rank(c, trial, rank, ids); });
  const pid_t victim = processes[size_t(trial.victim)];
  const uint64_t struck_ns = strike(c, trial, victim);

  const auto say = [&](int rank, const char* what) {
    const Board::Told& told = board->told[rank];
    printf(
        "%s of rank %d where it %s call %d, seed %llu: rank %d %s, in call %d "
        "(status %d, rank %d): %s\n",
        c.text().c_str(), trial.victim, points[size_t(trial.point)], trial.call,
        static_cast<unsigned long long>(trial.seed), rank, what, board->at[rank].load(),
        told.status, told.rank, told.text);
  };
  const bool lives = c.kind == Kind::pause || c.kind == Kind::abort;
  Tally now;
  for (int rank = 0; rank < c.nranks; ++rank) {
    if (rank == trial.victim && !lives) continue;
    const pid_t process = processes[size_t(rank)];
    if (!ends(process, limit_ns)) {
      say(rank, "hangs");
      ++now.hangs;
      continue;
    }
    const Board::Told& told = board->told[rank];
    if (told.wrong) {
      say(rank, "has a wrong result");
      ++now.wrong;
    } else if (!is_told(c, trial, told)) {
      say(rank, "was told something else");
      ++now.untold;
    }
    if (c.kind != Kind::pause)
      tally->latencies_ms.push_back(double(int64_t(told.ns - struck_ns)) / 1e6);
  }
  if (board->told[trial.victim].wrong) {
    say(trial.victim, "has a wrong result");
    ++now.wrong;
  }
  for (const pid_t process : processes) {
    kill(process, SIGKILL);
    ends(process, deadline_after_ms(watchdog_ms));
  }
  if (waitpid(-1, nullptr, WNOHANG) != -1 || !std::filesystem::is_empty(folder)) {
    say(trial.victim, "has left something behind");
    ++now.left;
  }
  tally->right += now.clean() ? 1 : 0;
  tally->hangs += now.hangs;
  tally->wrong += now.wrong;
  tally->untold += now.untold;
  tally->left += now.left;
}

bool run_all(const Case& c, const Options& options, const std::string& folder) {
  Tally tally;
  for (int i = 0; i < options.trials; ++i) {
    run(c, Trial(c, options.seed + uint64_t(i)), folder, &tally);
    tutti::testing::tell_progress(c.text(), i + 1, options);
  }
  printf(
      "%-4s %2d ranks  %-5s  %5d trials  right %5d  hangs %d  wrong %d  told otherwise %d  left "
      "behind %d",
      c.transport.c_str(), c.nranks, c.name(), options.trials, tally.right, tally.hangs,
      tally.wrong, tally.untold, tally.left);
  const bool clean = tally.clean();
  if (c.kind == Kind::pause) {
    printf("\n");
    return clean;
  }
  const Spread ms = spread_of(std::move(tally.latencies_ms), options);
  printf("  ms: p50 %7.2f  p99 %7.2f  max %7.2f%s\n", ms.p50, ms.p99, ms.most, ms.remark());
  return clean && !ms.late;
}

Options options_of(int argc, char** argv) {
  Options options;
  options.transports = tutti::testing::all_transports();
  read_options("faults", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option != "--faults") return false;
                 options.kinds = named_in(value, kinds, "faults", "fault");
                 return true;
               });
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Options options = options_of(argc, argv);
  board = tutti::testing::share<Board>();
  // Who loses its parent becomes a child of this process, which finds it then.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  char folder[] = "/tmp/tutti-faults-XXXXXX";
  if (mkdtemp(folder) == nullptr || chdir(folder) != 0) return 2;
  for (const char* const name : {"TMPDIR", "XDG_RUNTIME_DIR", "HOME"}) setenv(name, folder, 1);
  int failed = 0;
  for (const std::string& transport : options.transports) {
    for (const int nranks : options.ranks) {
      for (const Name& one : options.kinds)
        failed += run_all({transport, nranks, one.kind}, options, folder) ? 0 : 1;
    }
  }
  std::filesystem::remove_all(folder);
  if (failed != 0) printf("%d lines are wrong or too late\n", failed);
  return failed == 0 ? 0 : 1;
}
