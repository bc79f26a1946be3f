#include "tools/launcher/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/clock.h"
#include "tools/launcher/threads.h"

namespace tutti {
namespace {

// What the keeper tells the launcher when all is done, followed by the status's text.
struct Result {
  int32_t code = TUTTI_OK;
  int32_t exit_status = 0;
};

struct Pipe {
  Fd read_end, write_end;
};

Status make_pipe(Pipe* out) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe", errno);
  *out = {Fd(ends[0]), Fd(ends[1])};
  return {};
}

void write_all(const Fd& to, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t took = write(to.get(), at, bytes);
    if (took < 0 && errno == EINTR) continue;
    if (took <= 0) return;
    at += took;
    bytes -= size_t(took);
  }
}

// In the keeper. A terminal's signals reach the launcher alone, which passes them on.
[[noreturn]] void work_in_keeper(const Fd& signals, const Fd& launcher, const Fd& results,
                                 const std::function<Status(const Kept&, int* exit_status)>& work) {
  setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);  // it may print, though it is in the background
  int exit_status = 0;
  const Status status = work({signals.get(), launcher.get()}, &exit_status);
  end_descendants();
  const Result result{status.code(), exit_status};
  std::fflush(nullptr);
  write_all(results, &result, sizeof(result));
  write_all(results, status.text().data(), status.text().size());
  _exit(0);
}

void pass_on_signals(const Fd& signals, pid_t keeper) {
  signalfd_siginfo info;
  while (read(signals.get(), &info, sizeof info) == ssize_t(sizeof info))
    kill(keeper, int(info.ssi_signo));
}

}  // namespace

void end_descendants() {
  constexpr int64_t patience_ms = 2000;  // with what cannot be killed
  uint64_t until_ns = deadline_after_ms(patience_ms);
  while (now_ns() < until_ns) {
    const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped > 0) {
      until_ns = deadline_after_ms(patience_ms);
    } else if (reaped < 0 && errno == ECHILD) {
      return;
    } else if (reaped == 0) {
      for (const pid_t child : own_children()) kill(child, SIGKILL);
      usleep(1000);
    }
  }
}

Status keep(const Fd& signals, const std::function<Status(const Kept&, int* exit_status)>& work,
            int* exit_status) {
  Pipe life, results;
  TUTTI_TRY(make_pipe(&life));
  TUTTI_TRY(make_pipe(&results));
  // Both inherit orphans: the keeper while it lives, then this process.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return system_error("cannot watch over the children of ranks", errno);
  const pid_t keeper = fork();
  if (keeper < 0) return system_error("cannot start the process that keeps the ranks", errno);
  if (keeper == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    life.write_end.reset();
    results.read_end.reset();
    work_in_keeper(signals, life.read_end, results.write_end, work);
  }
  life.read_end.reset();
  results.write_end.reset();
  const Fd ended(int(syscall(SYS_pidfd_open, keeper, 0)));
  if (!ended) {
    const Status unwatched = system_error("cannot watch the process that keeps the ranks", errno);
    kill(keeper, SIGKILL);
    waitpid(keeper, nullptr, 0);
    end_descendants();
    return unwatched;
  }
  std::string told;
  for (bool running = true; running;) {
    pollfd watched[] = {{signals.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}};
    poll(watched, 2, -1);
    pass_on_signals(signals, keeper);
    running = watched[1].revents == 0;
  }
  char buffer[4096];
  fcntl(results.read_end.get(), F_SETFL, O_NONBLOCK);
  for (ssize_t got; (got = read(results.read_end.get(), buffer, sizeof buffer)) > 0;)
    told.append(buffer, size_t(got));
  waitpid(keeper, nullptr, 0);
  Result result;
  if (told.size() < sizeof(result)) {
    end_descendants();
    *exit_status = 128 + SIGKILL;
    std::fprintf(stderr, "tutti run: the process that keeps the ranks was killed\n");
    return {};
  }
  std::memcpy(&result, told.data(), sizeof(result));
  *exit_status = result.exit_status;
  if (result.code == TUTTI_OK) return {};
  return {tutti_status(result.code), told.substr(sizeof(result))};
}

}  // namespace tutti
