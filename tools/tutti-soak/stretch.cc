#include "tools/tutti-soak/stretch.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bench/cores.h"
#include "bench/launch.h"
#include "tools/tutti-soak/draw.h"
#include "tools/tutti-soak/random.h"
#include "tools/tutti-soak/ranks.h"

namespace tutti::soak {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Settings that follow from the seed; variables that the user has set are kept.
void set_environment(const StretchPlan& plan) {
  Random random(mix(plan.seed, 1234));
  static constexpr const char* words[] = {"auto", "auto", "always", "never"};
  setenv("TUTTI_SINGLE_COPY", random.pick(words), 0);
  setenv("TUTTI_PAST_CACHES", random.pick(words), 0);
  setenv("TUTTI_ADOPT", random.chance(500) ? "auto" : "never", 0);
  setenv("TUTTI_PROGRESS_THREAD", random.chance(300) ? "1" : "0", 0);
  if (random.chance(100)) setenv("TUTTI_CHECK", "result", 0);
  if (plan.configuration.as_threads())
    setenv("TUTTI_TRANSPORTS", plan.configuration.transport.c_str(), 1);
}

// One core for two ranks where they are crowded.
void leave_few_cores(const StretchPlan& plan) {
  if (!plan.configuration.crowded) return;
  const std::vector<int>& cores = bench::usable_cores();
  const size_t most =
      std::min(cores.size(), std::max<size_t>(1, size_t(plan.configuration.ranks) / 2));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = 0; i < most; ++i) CPU_SET(cores[i], &set);
  sched_setaffinity(0, sizeof set, &set);
}

std::vector<std::string> command_of(const StretchPlan& plan, const std::string& board) {
  std::vector<std::string> ranks{bench::own_path(),
                                 "--board",
                                 board,
                                 "--seed",
                                 fmt::to_string(plan.seed),
                                 "--from-step",
                                 fmt::to_string(plan.from_step),
                                 "--steps",
                                 fmt::to_string(plan.steps),
                                 "--threads",
                                 fmt::to_string(plan.threads()),
                                 "--timeout",
                                 fmt::to_string(plan.timeout_s)};
  if (plan.seconds > 0) ranks.insert(ranks.end(), {"--stretch", fmt::to_string(plan.seconds)});
  const std::string n = fmt::to_string(plan.configuration.ranks);
  if (plan.configuration.as_threads()) {
    ranks.insert(ranks.end(), {"--as-threads", n});
    return ranks;
  }
  // At every other seed crowded ranks are not bound.
  const char* bind = plan.configuration.crowded && plan.seed % 2 == 0 ? "none" : "core";
  std::vector<std::string> command{
      bench::find_tutti(),         "run", "-n", n, "--bind", bind, "--transport",
      plan.configuration.transport};
  command.insert(command.end(), ranks.begin(), ranks.end());
  return command;
}

// The process that runs the ranks as threads, or launches them.
class Child {
 public:
  Child(const StretchPlan& plan, const std::vector<std::string>& command) {
    std::vector<char*> argv;
    argv.reserve(command.size() + 1);
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ < 0)
      throw std::runtime_error(fmt::format("cannot start ranks: {}", std::strerror(errno)));
    if (pid_ > 0) return;
    setpgid(0, 0);  // an interrupt of the terminal goes to the watching process alone
    set_environment(plan);
    leave_few_cores(plan);
    execv(argv[0], argv.data());
    _exit(127);
  }

  // Its wait status is at `status` once it has ended.
  bool ended() {
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }
  // Ends it: SIGTERM, then SIGKILL.
  void end() {
    for (int tenths = 0; !ended(); ++tenths) {
      if (tenths == 0) kill(pid_, SIGTERM);
      if (tenths == 50) kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  int status = 0;

 private:
  pid_t pid_ = -1;
};

// Detects that no rank makes progress any more.
class Watch {
 public:
  Watch(const StretchPlan& plan, const Board& board)
      : plan_(plan), board_(board), last_(size_t(plan.configuration.ranks * plan.threads())) {
    for (Seen& seen : last_) seen.at = Clock::now();
  }

  // Calls have deadlines and should end by them; the watch allows time beyond that.
  bool stuck() {
    const double limit = 4 * plan_.timeout_s + 10;
    for (size_t i = 0; i < last_.size(); ++i) {
      const Slot& slot = board_.slots[i];
      const uint64_t mark =
          mix(slot.step.load(), slot.call.load(), slot.calls.load(), uint64_t(slot.phase.load()));
      if (mark != last_[i].mark) last_[i] = {mark, Clock::now()};
      if (slot.phase != Phase::ended && seconds_since(last_[i].at) > limit) return true;
    }
    return false;
  }

  // Prints where every rank is.
  void tell() const {
    static constexpr const char* phases[] = {"sets up", "fills vectors", "calls",
                                             "waits",   "compares",      "has ended"};
    const int threads = plan_.threads();
    for (size_t i = 0; i < last_.size(); ++i) {
      const Slot& slot = board_.slots[i];
      const int thread = int(i) % threads;
      const Step step =
          draw_step(mix(plan_.seed, uint64_t(thread)), slot.step, plan_.configuration.ranks);
      const size_t call = std::min<size_t>(slot.call, step.calls.size() - 1);
      std::fprintf(stderr, "tutti-soak: rank %d, thread %d %s in step %llu, call %zu of %zu: %s\n",
                   int(i) / threads, thread, phases[size_t(slot.phase.load())],
                   static_cast<unsigned long long>(slot.step.load()), call + 1, step.calls.size(),
                   describe(step.calls[call]).c_str());
    }
  }

 private:
  struct Seen {
    uint64_t mark = 0;
    Clock::time_point at;
  };
  const StretchPlan& plan_;
  const Board& board_;
  std::vector<Seen> last_;
};

// Rank 0's calls are counted, as all ranks make the same number; wrong results are counted on every
// rank.
Tally read_board(const StretchPlan& plan, const Board& board) {
  Tally tally;
  const int threads = plan.threads();
  for (int i = 0; i < plan.configuration.ranks * threads; ++i) {
    const Slot& slot = board.slots[i];
    if (i < threads) {
      tally.calls += slot.calls;
      tally.refused += slot.refused;
    }
    tally.bytes += slot.bytes;
    tally.wrong += slot.wrong;
  }
  return tally;
}

bool any_timed_out(const StretchPlan& plan, const Board& board) {
  for (int i = 0; i < plan.configuration.ranks * plan.threads(); ++i)
    if (board.slots[i].ending == Ending::timed_out) return true;
  return false;
}

// Ranks say why they fail; their launcher may also have been killed from outside.
void tell_end(int status) {
  const bool by_signal = WIFSIGNALED(status);
  std::fprintf(stderr, "tutti-soak: what started the ranks ended by %s %d\n",
               by_signal ? "signal" : "exit status",
               by_signal ? WTERMSIG(status) : WEXITSTATUS(status));
}

// Prints the command that repeats the stretch.
void tell_command(const StretchPlan& plan) {
  std::string text = fmt::format("tools/soak --transport {} --ranks {} --cores {} --seed {}",
                                 plan.configuration.transport, plan.configuration.ranks,
                                 plan.configuration.crowded ? "crowded" : "own", plan.seed);
  if (plan.from_step > 0) text += fmt::format(" --from-step {}", plan.from_step);
  if (plan.steps > 0) text += fmt::format(" --steps {}", plan.steps);
  if (plan.seconds > 0) text += fmt::format(" --stretch {:g}", plan.seconds);
  std::fprintf(stderr, "tutti-soak: again: %s --rounds 1\n", text.c_str());
}

}  // namespace

std::string Configuration::name() const {
  return fmt::format("{}, {} ranks {}", transport, ranks, crowded ? "crowded" : "on own cores");
}

void Tally::operator+=(const Tally& other) {
  calls += other.calls;
  bytes += other.bytes;
  wrong += other.wrong;
  refused += other.refused;
  hangs += other.hangs;
  failed += other.failed;
}

int StretchPlan::threads() const { return mix(seed, 4321) % 3 == 0 ? 2 : 1; }

int usable_core_count() { return int(bench::usable_cores().size()); }

StretchEnd run_stretch(const StretchPlan& plan, const std::function<bool(const Tally&)>& progress) {
  const BoardOwner owner;
  Board& board = owner.board();
  Child child(plan, command_of(plan, owner.path()));
  Watch watch(plan, board);
  StretchEnd end;
  bool stuck = false;
  while (!child.ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!progress(read_board(plan, board))) board.stop = 1;
    stuck = watch.stuck();
    if (!stuck) continue;
    std::fprintf(stderr, "tutti-soak: HANG: %s\n", plan.configuration.name().c_str());
    watch.tell();
    child.end();
  }
  end.tally = read_board(plan, board);
  end.not_here = WIFEXITED(child.status) && WEXITSTATUS(child.status) == not_here_status;
  if (stuck || any_timed_out(plan, board))
    end.tally.hangs = 1;
  else if (child.status != 0 && !end.not_here)
    end.tally.failed = 1;
  if (end.tally.failed > 0) tell_end(child.status);
  if (!end.tally.good()) tell_command(plan);
  return end;
}

}  // namespace tutti::soak
