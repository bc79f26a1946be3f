#include "tools/launcher/launcher.h"

#include <errno.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/config/config.h"
#include "tools/launcher/keeper.h"
#include "tools/launcher/neighbours.h"
#include "tools/launcher/ranks.h"
#include "tools/launcher/records.h"

namespace tutti {
namespace {

constexpr int64_t blame_ms = 100;  // a rank may be found dead by its signal later than who lost it
constexpr int64_t report_ms = 1500;  // survivors detect and report the failure, before SIGTERM
constexpr int64_t grace_ms = 2000;   // from SIGTERM to SIGKILL

constexpr int64_t parting_ms = 50;  // for the last output of a job that was stopped

void say(Outputs& terminal, const std::string& sentence) {
  terminal.err().add("tutti run: " + sentence + "\n");
  terminal.err().flush();
}

// Watches the ranks until all have ended, and ends them if need be.
class Watch {
 public:
  Watch(const LocalJob& job, Ranks& ranks, Binding& binding, Outputs& terminal, Records& records,
        const Kept& kept)
      : ranks_(ranks),
        neighbours_(binding, ranks),
        terminal_(terminal),
        records_(records),
        kept_(kept),
        timeout_at_(job.timeout_ms > 0 ? deadline_after_ms(job.timeout_ms) : never_ns),
        timeout_ms_(job.timeout_ms),
        stop_ms_(job.stop_ms),
        keep_going_(job.keep_going),
        verbose_(job.verbose) {}

  int run() {
    while (ranks_.any_running()) {
      look();
      for (Prefixer& output : ranks_.outputs())
        if (output.reads()) output.pump();
    }
    if (!over_ && !some_ended_well_) exit_status_ = lost_status_;
    if (blamed_ != 0) say_diagnosis(records_.diagnose(blamed_, ending_));
    ranks_.finish();
    part();
    return exit_status_;
  }

 private:
  void look() {
    wait();
    look_at_ranks();
    look_at_signals();
    terminal_.out().flush();
    terminal_.err().flush();
    look_at_clock();
  }

  // All have ended: forwards what they have printed as fast as it is read, but of a job that was
  // stopped, or is now, not for long.
  void part() {
    for (;;) {
      bool more = false;
      for (Prefixer& output : ranks_.outputs()) {
        while (output.reads()) output.pump(true);
        more = more || output.open();
      }
      if (!more && terminal_.out().waiting() + terminal_.err().waiting() == 0) return;
      if (stopped_ && part_at_ == never_ns) part_at_ = deadline_after_ms(parting_ms);
      if (orphaned_ || now_ns() >= part_at_) return;
      look();
    }
  }

  void wait() {
    std::vector<pollfd> watched{{kept_.signals, POLLIN, 0}};
    if (!orphaned_) watched.push_back({kept_.keeper, POLLIN, 0});
    for (const RankProcess& process : ranks_.processes())
      if (process.running) watched.push_back({process.exited.get(), POLLIN, 0});
    for (const Prefixer& output : ranks_.outputs())
      if (output.reads()) watched.push_back({output.fd(), POLLIN, 0});
    for (const Output* output : {&terminal_.out(), &terminal_.err()})
      if (output->waiting() > 0) watched.push_back({output->fd(), POLLOUT, 0});
    const uint64_t next = std::min({timeout_at_, over_ ? never_ns : blame_at_, terminate_at_,
                                    kill_at_, part_at_, neighbours_.next_ns()});
    const uint64_t now = now_ns();
    int wait_ms = -1;
    if (next != never_ns) wait_ms = next <= now ? 0 : int((next - now) / 1'000'000u) + 1;
    poll(watched.data(), watched.size(), wait_ms);
    if (!orphaned_ && watched[1].revents != 0) {  // the launcher was killed
      orphaned_ = over_ = true;
      ranks_.signal(SIGKILL);
    }
  }

  // Survivors end soon after the rank that they lost, and may be found ended before it: its
  // descriptors are closed, which is what they see, before it can be waited for. So what cannot be
  // a survivor's way to end is blamed at once, the rest when nothing of that kind has come in
  // blame_ms.
  void look_at_ranks() {
    for (size_t rank = 0; rank < ranks_.processes().size(); ++rank) {
      const std::optional<Ending> ending = ranks_.ended(rank);
      some_ended_well_ = some_ended_well_ || (ending && !ending->failed());
      if (!ending || !ending->failed() || over_) continue;
      if (keep_going_ && ending->by_signal) {
        say(terminal_, who(rank) + " " + text_of(*ending) + "; the others go on");
        if (lost_status_ == 0) lost_status_ = ending->exit_status();
        continue;
      }
      if (!first_) {
        blame_at_ = deadline_after_ms(blame_ms);
        terminate_at_ = deadline_after_ms(report_ms);
      }
      if (!first_ || (first_->ending.may_follow() && !ending->may_follow()))
        first_ = Failed{rank, *ending};
    }
    if (!over_ && first_ &&
        (!first_->ending.may_follow() || now_ns() >= blame_at_ || !ranks_.any_running()))
      blame(*first_);
  }

  struct Failed {
    size_t rank;
    Ending ending;
  };

  void blame(const Failed& failed) {
    over_ = true;
    records_.note_stopped();
    exit_status_ = failed.ending.exit_status();
    blamed_ = ranks_.processes()[failed.rank].pid;
    ending_ = text_of(failed.ending);
    say(terminal_, who(failed.rank) + " " + ending_);
  }

  std::string who(size_t rank) const {
    return fmt::format("rank {} (process {})", rank, ranks_.processes()[rank].pid);
  }
  static std::string text_of(const Ending& ending) {
    return ending.by_signal
               ? fmt::format("was ended by signal {} ({})", ending.value, strsignal(ending.value))
               : fmt::format("ended with exit status {}", ending.value);
  }

  void say_diagnosis(const std::string& sentence) {
    if (!sentence.empty()) say(terminal_, "diagnosis: " + sentence);
  }

  // The first signal is forwarded; a second one kills at once. The launcher passes its own on, so
  // one that somebody has sent to both processes counts once.
  void look_at_signals() {
    signalfd_siginfo info;
    while (read(kept_.signals, &info, sizeof info) == ssize_t(sizeof info)) {
      if (info.ssi_pid != uint32_t(getppid())) continue;
      stopped_ = true;
      if (stopping_) {
        ranks_.signal(SIGKILL);
        continue;
      }
      stopping_ = true;
      if (!over_) exit_status_ = 128 + int(info.ssi_signo);
      over_ = true;
      stop(int(info.ssi_signo), stop_ms_);
    }
  }

  void look_at_clock() {
    const uint64_t now = now_ns();
    if (now >= timeout_at_) {
      timeout_at_ = never_ns;
      stopped_ = true;
      if (!over_) {
        say(terminal_,
            fmt::format("the job was not done after {:g} s", double(timeout_ms_) / 1000));
        say_diagnosis(records_.diagnose(0, {}));
        exit_status_ = 124;
        over_ = true;
        stop(SIGTERM);
      }
    }
    if (now >= neighbours_.next_ns()) {
      const std::string done = neighbours_.look();
      if (verbose_ && !done.empty()) say(terminal_, done);
    }
    if (now >= terminate_at_) stop(SIGTERM);
    if (now >= kill_at_) {
      kill_at_ = never_ns;
      ranks_.signal(SIGKILL);
    }
  }

  void stop(int signal, int64_t before_kill_ms = grace_ms) {
    terminate_at_ = never_ns;
    kill_at_ = deadline_after_ms(before_kill_ms);
    ranks_.signal(signal);
  }

  Ranks& ranks_;
  Neighbours neighbours_;
  Outputs& terminal_;
  Records& records_;
  const Kept& kept_;
  uint64_t timeout_at_;
  int64_t timeout_ms_;
  int64_t stop_ms_;
  bool keep_going_;
  bool verbose_;
  bool some_ended_well_ = false;
  int lost_status_ = 0;  // of the first rank that was lost while the others go on
  uint64_t terminate_at_ = never_ns;
  uint64_t kill_at_ = never_ns;
  std::optional<Failed> first_;  // whom to blame, as far as is known
  pid_t blamed_ = 0;
  std::string ending_;  // of that one, in words
  uint64_t blame_at_ = never_ns;
  bool over_ = false;      // the exit status is decided
  bool stopping_ = false;  // by a signal
  bool stopped_ = false;   // by a signal or the timeout
  bool orphaned_ = false;  // nobody asks any more how the job ends
  uint64_t part_at_ = never_ns;
  int exit_status_ = 0;
};

// From here on these signals are read, not delivered; those that were ignored at the start (nohup)
// stay ignored.
Status open_signals(Fd* out) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now;
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0)
    return system_error("cannot block signals", errno);
  ::signal(SIGPIPE, SIG_IGN);
  *out = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!*out) return system_error("cannot watch for signals", errno);
  return {};
}

}  // namespace

Status run_local(const LocalJob& job, int* exit_status) {
  if (!job.transports.empty() && !config_check(Variable::tutti_transports, job.transports).ok())
    return Status(TUTTI_INVALID, "--transport is '" + job.transports +
                                     "', but must be a comma separated list of " +
                                     config_variable(Variable::tutti_transports).allowed);
  Fd signals;
  TUTTI_TRY(open_signals(&signals));
  std::fflush(nullptr);
  Records records = Records::make();
  const Status kept_well = keep(
      signals,
      [&](const Kept& kept, int* status) -> Status {
        Binding binding;
        TUTTI_TRY(Binding::plan(job.bind, job.nranks, &binding));
        Outputs terminal;
        Ranks ranks(terminal, records.folder());
        if (job.verbose && !binding.text().empty()) say(terminal, binding.text());
        TUTTI_TRY(ranks.start(job, binding));
        *status = Watch(job, ranks, binding, terminal, records, kept).run();
        records.remove();  // the launcher may have been killed
        return {};
      },
      exit_status);
  records.remove();
  return kept_well;
}

}  // namespace tutti
