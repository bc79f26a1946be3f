// Hosts that are cut off in the middle of a call, in every way that a network can do it: how soon
// the others are told, and of whom. Half of them at a random moment, the others where the rank
// enters a call of a random number. And processes that are stopped for a moment, of which nobody
// may be told. Each trial follows from its seed.
//
//   cuts [--trials N] [--seed FIRST] [--ranks LIST] [--cuts LIST] [--at-once N] [--pauses N]
//        [--most-p99-ms MS] [--most-ms MS]
//
// Prints a line for each number of ranks and cut. Trial i of a line has the seed FIRST + i;
// --at-once trials run beside each other. Needs root, for network namespaces.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/fault/trials.h"
#include "tests/support/hosts.h"

namespace {

using tutti::deadline_after_ms;
using tutti::now_ns;
using tutti::testing::count_from;
using tutti::testing::Hosts;
using tutti::testing::is_stopped;
using tutti::testing::named_in;
using tutti::testing::read_options;
using tutti::testing::Report;
using tutti::testing::report_of;
using tutti::testing::Spread;
using tutti::testing::spread_of;
using tutti::testing::TrialOptions;

constexpr int skipped = 77;
constexpr int most_ranks = 8, most_trials = 100'000;
constexpr uint64_t most_calls = 50;

struct Cut {
  const char* name;
  bool (Hosts::*cut)(int);
};
constexpr Cut all_cuts[] = {{"unplug", &Hosts::unplug},
                            {"lose", &Hosts::lose},
                            {"mute", &Hosts::mute},
                            {"deafen", &Hosts::deafen}};

struct Options : TrialOptions {
  Options() : TrialOptions{4, 3000, 5000} {}
  std::vector<Cut> cuts{std::begin(all_cuts), std::end(all_cuts)};
  int at_once = 8;
  int pauses = 5;
};

struct Trial {
  uint64_t seed;
  int victim;
  size_t count;
  useconds_t delay_us;
  const char* algorithm;
  int call;  // that the victim enters when it is cut off; 0: at a random moment

  Trial(int nranks, uint64_t seed) : seed(seed) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u);
    victim = int(random() % uint64_t(nranks));
    count = count_from(random);
    delay_us = useconds_t(random() % 600'000);
    constexpr const char* algorithms[] = {"auto", "ring", "tree", "master-worker"};
    algorithm = algorithms[random() % std::size(algorithms)];
    call = random() % 2 == 0 ? 0 : 1 + int(random() % most_calls);
  }
  std::string where() const {
    return call == 0 ? "" : ", as it entered call " + std::to_string(call);
  }
};

// Of the ranks but the one that was cut off.
struct Outcome {
  bool wrong = true;
  int latencies = 0;
  double latency_ms[most_ranks] = {};
};

tutti_status reduce(tutti_comm comm, const Trial& trial) {
  const std::vector<float> in(trial.count, 1);
  std::vector<float> out(trial.count);
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = trial.algorithm;
  return tutti_allreduce_with(in.data(), out.data(), in.size(), TUTTI_FLOAT32, TUTTI_SUM, comm,
                              &config);
}

// Both of two ranks are right whomever of them they name.
bool is_right(const Report& report, int nranks, int victim) {
  return report.status == TUTTI_PEER_FAILED && (report.rank == victim || nranks == 2);
}

// Until the victim is where it is to be cut off, and stopped if that is in its calls.
bool await_moment(const Trial& trial, pid_t victim) {
  if (trial.call == 0) return usleep(trial.delay_us) == 0;
  const uint64_t give_up_ns = deadline_after_ms(10'000);
  while (!is_stopped(victim)) {
    if (now_ns() > give_up_ns) return false;
    usleep(100);
  }
  return true;
}

Outcome run(int nranks, const Cut& cut, const Trial& trial) {
  Hosts hosts(
      nranks, "tcp",
      [&](int, tutti_comm comm) {
        tutti_status status = TUTTI_OK;
        while (status == TUTTI_OK) status = reduce(comm, trial);
        return report_of(status, comm);
      },
      [&](int rank) {
        if (rank != trial.victim || trial.call == 0) return;
        setenv("TUTTI_FAULT", ("stop at call " + std::to_string(trial.call)).c_str(), 1);
      });
  const pid_t victim = hosts.process(trial.victim);
  Outcome outcome;
  outcome.wrong = !await_moment(trial, victim);
  const uint64_t cut_ns = now_ns();
  if (!(hosts.*cut.cut)(trial.victim)) outcome.wrong = true;
  kill(victim, SIGCONT);
  for (int rank = 0; rank < nranks; ++rank) {
    Report report;
    const bool told = hosts.finish(rank, &report);
    if (rank == trial.victim) continue;
    const double ms = double(int64_t(report.ended_ns - cut_ns)) / 1e6;
    outcome.latency_ms[outcome.latencies++] = told ? ms : 1e9;
    if (told && is_right(report, nranks, trial.victim)) continue;
    outcome.wrong = true;
    printf(
        "%d ranks, %s, seed %llu: rank %d was cut off%s, but rank %d was told of rank %d (status "
        "%d) after %.1f ms: %s\n",
        nranks, cut.name, static_cast<unsigned long long>(trial.seed), trial.victim,
        trial.where().c_str(), rank, report.rank, report.status, ms, report.text);
  }
  return outcome;
}

bool run_all(int nranks, const Cut& cut, const Options& options, Outcome* outcomes) {
  std::vector<pid_t> workers;
  for (int worker = 0; worker < options.at_once; ++worker) {
    workers.push_back(fork());
    if (workers.back() != 0) continue;
    for (int i = worker; i < options.trials; i += options.at_once)
      outcomes[i] = run(nranks, cut, Trial(nranks, options.seed + uint64_t(i)));
    fflush(stdout);
    _exit(0);
  }
  for (const pid_t worker : workers) waitpid(worker, nullptr, 0);
  int wrong = 0;
  std::vector<double> latencies_ms;
  for (int i = 0; i < options.trials; ++i) {
    wrong += outcomes[i].wrong ? 1 : 0;
    latencies_ms.insert(latencies_ms.end(), outcomes[i].latency_ms,
                        outcomes[i].latency_ms + outcomes[i].latencies);
    outcomes[i] = {};
  }
  latencies_ms.resize(std::max<size_t>(latencies_ms.size(), 1));
  const Spread ms = spread_of(std::move(latencies_ms), options);
  printf("%2d ranks  %-7s  %5d trials  right %5d  ms: p50 %7.1f  p99 %7.1f  max %7.1f%s\n", nranks,
         cut.name, options.trials, options.trials - wrong, ms.p50, ms.p99, ms.most, ms.remark());
  return wrong == 0 && !ms.late;
}

// A process is stopped for 500 ms, again and again, while all reduce; nobody is told of it.
bool run_pauses(int nranks, const Options& options) {
  Trial trial(nranks, options.seed);
  trial.algorithm = "ring";
  Hosts hosts(nranks, "tcp", [&](int, tutti_comm comm) {
    std::vector<float> over(1);
    while (over[0] == 0) {
      if (const tutti_status status = reduce(comm, trial); status != TUTTI_OK)
        return report_of(status, comm);
      // The parent has no other way to say so than by a signal to rank 0, which all then hear of.
      sigset_t pending;
      sigpending(&pending);
      const float mine = sigismember(&pending, SIGUSR1) == 1 ? 1 : 0;
      const tutti_status status =
          tutti_allreduce(&mine, over.data(), 1, TUTTI_FLOAT32, TUTTI_MAX, comm);
      if (status != TUTTI_OK) return report_of(status, comm);
    }
    return report_of(TUTTI_OK, comm);
  });
  std::mt19937_64 random(options.seed);
  for (int i = 0; i < options.pauses; ++i) {
    usleep(useconds_t(random() % 100'000));
    const pid_t process = hosts.process(int(random() % uint64_t(nranks)));
    kill(process, SIGSTOP);
    usleep(500'000);
    kill(process, SIGCONT);
  }
  kill(hosts.process(0), SIGUSR1);
  int alarms = 0;
  for (int rank = 0; rank < nranks; ++rank) {
    Report report;
    if (hosts.finish(rank, &report) && report.status == TUTTI_OK) continue;
    ++alarms;
    printf("%d ranks, paused: rank %d was told: %s\n", nranks, rank, report.text);
  }
  printf("%2d ranks  %d pauses of 500 ms: %s\n", nranks, options.pauses,
         alarms == 0 ? "no alarm" : "FALSE ALARM");
  return alarms == 0;
}

Options options_of(int argc, char** argv) {
  Options options;
  read_options("cuts", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option == "--trials") {
                   options.trials = std::clamp(std::stoi(value), 0, most_trials);
                 } else if (option == "--at-once") {
                   options.at_once = std::max(1, std::stoi(value));
                 } else if (option == "--pauses") {
                   options.pauses = std::max(0, std::stoi(value));
                 } else if (option == "--cuts") {
                   options.cuts = named_in(value, all_cuts, "cuts", "cut");
                 } else {
                   return false;
                 }
                 return true;
               });
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Options options = options_of(argc, argv);
  if (const std::string obstacle = Hosts::obstacle(); !obstacle.empty()) {
    printf("skipped: %s\n", obstacle.c_str());
    return skipped;
  }
  // So that it stays pending where it is looked for.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGUSR1);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  auto* const outcomes =
      static_cast<Outcome*>(mmap(nullptr, sizeof(Outcome) * most_trials, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::fill_n(outcomes, options.trials, Outcome());
  int failed = 0;
  for (const int nranks : options.ranks) {
    for (const Cut& cut : options.cuts) {
      if (options.trials > 0) failed += run_all(nranks, cut, options, outcomes) ? 0 : 1;
    }
    if (options.pauses > 0) failed += run_pauses(nranks, options) ? 0 : 1;
  }
  if (failed != 0) printf("%d lines are wrong or too late\n", failed);
  return failed == 0 ? 0 : 1;
}
