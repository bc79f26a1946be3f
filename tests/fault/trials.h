// What programs that repeat a trial many times share: options, each a name and a value, the ranks
// of a trial, and what their lines say.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/pass_id.h"
#include "tests/support/with_ucx.h"
#include "tutti/tutti.h"

namespace tutti::testing {

struct TrialOptions {
  int trials = 0;
  double most_p99_ms = 0, most_ms = 0;
  uint64_t seed = 1;
  std::vector<int> ranks{2, 4};
  std::vector<std::string> transports{};  // without any, there is no such option
};

// For TrialOptions::transports.
inline std::vector<std::string> all_transports() {
  const std::vector<const char*> all = with_ucx({"shm", "tcp"});
  return {all.begin(), all.end()};
}

[[noreturn]] inline void refuse_option(const char* program, const std::string& what) {
  fprintf(stderr, "%s: %s\n", program, what.c_str());
  exit(2);
}

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t from = 0, comma; from <= text.size(); from = comma + 1) {
    comma = std::min(text.find(',', from), text.size());
    words.push_back(text.substr(from, comma - from));
  }
  return words;
}

// A child of this process.
inline bool is_stopped(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, id_t(process), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process;
}

// Those of `all` whose names are in the list, in its order; `kind`: what they are.
template <class Named, size_t n>
std::vector<Named> named_in(const std::string& list, const Named (&all)[n], const char* program,
                            const char* kind) {
  std::vector<Named> chosen;
  for (const std::string& word : split(list)) {
    const auto* const found = std::find_if(std::begin(all), std::end(all),
                                           [&](const Named& one) { return word == one.name; });
    if (found == std::end(all))
      refuse_option(program, std::string("there is no ") + kind + " " + word);
    chosen.push_back(*found);
  }
  return chosen;
}

// `own(option, value)` takes what only this program has, and what it reads in its own way; false:
// not this one.
template <class Own>
void read_options(const char* program, int argc, char** argv, int most_ranks, TrialOptions& options,
                  Own&& own) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (own(option, value)) continue;
    if (option == "--trials") {
      options.trials = std::max(1, std::stoi(value));
    } else if (option == "--transports" && !options.transports.empty()) {
      options.transports = split(value);
    } else if (option == "--seed") {
      options.seed = std::stoull(value);
    } else if (option == "--ranks") {
      options.ranks.clear();
      for (const std::string& word : split(value))
        options.ranks.push_back(std::clamp(std::stoi(word), 2, most_ranks));
    } else if (option == "--most-p99-ms") {
      options.most_p99_ms = std::stod(value);
    } else if (option == "--most-ms") {
      options.most_ms = std::stod(value);
    } else {
      refuse_option(program, "there is no option " + option);
    }
  }
  if (argc % 2 == 0)
    refuse_option(program, std::string("a value is missing for ") + argv[argc - 1]);
}

// After each hundred trials; `line`: which are run. Who was broken off goes on from that seed.
inline void tell_progress(const std::string& line, int done, const TrialOptions& options) {
  if (done % 100 == 0 && done < options.trials) {
    printf("%s: %d of %d, next seed %llu\n", line.c_str(), done, options.trials,
           static_cast<unsigned long long>(options.seed + uint64_t(done)));
  }
}

// Zeros that this process shares with those that it forks.
template <class Board>
Board* share() {
  void* const at =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<Board*>(at);
}

// How many elements the calls of a trial have.
inline size_t count_from(std::mt19937_64& random) {
  constexpr size_t counts[] = {1, 100, 5'000, 300'000};
  return counts[random() % std::size(counts)];
}

// Forks ranks that end with this process; run(rank, ids) is the life of one, `ids` a pipe for its
// join().
template <class Run>
std::vector<pid_t> fork_ranks(int nranks, Run&& run) {
  int ids[2];
  if (pipe(ids) != 0) abort();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < nranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(rank, ids);
    }
    processes.push_back(process);
  }
  close(ids[0]);
  close(ids[1]);
  return processes;
}

inline tutti_status join(const std::string& transport, int64_t timeout_ms, int rank, int nranks,
                         const int* ids, tutti_comm* comm) {
  const tutti_unique_id id = pass_id(rank, nranks, ids);
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = transport.c_str();
  config.timeout_ms = timeout_ms;
  return tutti_comm_create_from_id(&id, rank, nranks, &config, comm);
}

// Until so many ranks have counted themselves, at most 20 s.
inline void await(const std::atomic<int>& counted, int ranks) {
  const uint64_t limit_ns = deadline_after_ms(20'000);
  while (counted < ranks && now_ns() < limit_ns) usleep(500);
}

// Of the latencies of all trials.
struct Spread {
  double p50, p99, most;
  bool late;  // beyond what the options allow

  const char* remark() const { return late ? "  TOO LATE" : ""; }
};

inline Spread spread_of(std::vector<double> ms, const TrialOptions& options) {
  std::sort(ms.begin(), ms.end());
  const auto quantile = [&](double q) {
    return ms[std::min(ms.size() - 1, size_t(q * double(ms.size())))];
  };
  const double p99 = quantile(0.99);
  return {quantile(0.5), p99, ms.back(), p99 > options.most_p99_ms || ms.back() > options.most_ms};
}

}  // namespace tutti::testing
