#include "tools/launcher/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "lib/config/launch.h"
#include "tools/launcher/keeper.h"

namespace tutti {
namespace {

// Of what has come of lines without an end, from all ranks together; but of each so much.
constexpr size_t most_kept = 16 << 20, least_line = 64 << 10;

struct Pipe {
  Fd read_end, write_end;
};

Status make_pipe(int flags, Pipe* out) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0) return system_error("cannot make a pipe", errno);
  *out = {Fd(ends[0]), Fd(ends[1])};
  return {};
}

// The rest runs in the child, before the program or function of the rank.

void set_environment(const LocalJob& job, int rank, int job_fd, int listen_fd) {
  const std::string number = std::to_string(rank), size = std::to_string(job.nranks);
  setenv("TUTTI_RANK", number.c_str(), 1);
  setenv("TUTTI_SIZE", size.c_str(), 1);
  setenv("TUTTI_LOCAL_RANK", number.c_str(), 1);
  setenv("TUTTI_LOCAL_SIZE", size.c_str(), 1);
  setenv("TUTTI_JOB_FD", std::to_string(job_fd).c_str(), 1);
  unsetenv("TUTTI_LISTEN_FD");
  if (rank == 0) setenv("TUTTI_LISTEN_FD", std::to_string(listen_fd).c_str(), 1);
  if (!job.transports.empty()) setenv("TUTTI_TRANSPORTS", job.transports.c_str(), 1);
  if (!job.interface.empty()) setenv("TUTTI_INTERFACE", job.interface.c_str(), 1);
}

// Rank 0 keeps the launcher's input unless it is a terminal, from which a background process group
// cannot read; the others have none.
void set_input(int rank) {
  if (rank == 0 && !isatty(STDIN_FILENO)) return;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
}

// Undoes the launcher's own ignoring and blocking of these signals.
void restore_signals() {
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTTOU, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const LocalJob& job, const Fd& failure) {
  std::vector<char*> arguments;
  for (const std::string& word : job.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failure.get(), &error, sizeof error);
  _exit(127);
}

// An exec would close the launcher's descriptors; a function begins without them likewise. Rank 0
// alone keeps the listener: a rank that lives on with it would let others connect to a dead rank 0.
[[noreturn]] void call(const LocalJob& job, int rank, Rendezvous& rendezvous, Pipe& failure) {
  failure = {};
  if (rank != 0) rendezvous.listener.reset();
  std::exit(job.function());
}

}  // namespace

Ranks::~Ranks() { finish(); }

Status Ranks::start(const LocalJob& job, Binding& binding) {
  Rendezvous rendezvous;
  TUTTI_TRY(open_rendezvous("", &rendezvous));
  int fd = -1;
  TUTTI_TRY(share_id(rendezvous.id, &fd));
  const Fd job_file(fd);
  std::fflush(nullptr);
  for (int rank = 0; rank < job.nranks; ++rank)
    TUTTI_TRY(start_one(job, binding, rank, job_file.get(), rendezvous));
  return {};
}

Status Ranks::start_one(const LocalJob& job, Binding& binding, int rank, int job_fd,
                        Rendezvous& rendezvous) {
  Pipe failure, out, err;
  TUTTI_TRY(make_pipe(0, &failure));
  if (job.prefix) {
    TUTTI_TRY(make_pipe(0, &out));
    TUTTI_TRY(make_pipe(0, &err));
  }
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error("cannot start rank " + std::to_string(rank), errno);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(127);  // the launcher died before prctl()
    setsid();
    restore_signals();
    set_input(rank);
    if (job.prefix) {
      dup2(out.write_end.get(), STDOUT_FILENO);
      dup2(err.write_end.get(), STDERR_FILENO);
    }
    const int listen_fd = rendezvous.listener.get();
    fcntl(listen_fd, F_SETFD, rank == 0 ? 0 : FD_CLOEXEC);
    set_environment(job, rank, job_fd, listen_fd);
    if (!record_folder_.empty()) setenv("TUTTI_RECORD_DIR", record_folder_.c_str(), 1);
    if (const auto fault = job.faults.find(rank); fault != job.faults.end())
      setenv("TUTTI_FAULT", fault->second.c_str(), 1);
    binding.apply(rank);
    if (job.function) {
      out = {};
      err = {};
      processes_.clear();
      outputs_.clear();
      call(job, rank, rendezvous, failure);
    }
    become(job, failure.write_end);
  }
  processes_.push_back({pid, Fd(int(syscall(SYS_pidfd_open, pid, 0)))});
  if (!processes_.back().exited) return system_error("cannot watch a rank", errno);

  failure.write_end.reset();
  int error = 0;
  if (read(failure.read_end.get(), &error, sizeof error) == ssize_t(sizeof error))
    return system_error("cannot run " + job.command[0], error);
  if (job.prefix) {
    for (Pipe* pipe : {&out, &err}) {
      fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
      outputs_.emplace_back(std::move(pipe->read_end),
                            pipe == &out ? terminal_.out() : terminal_.err(), rank,
                            std::max(most_kept / (2 * size_t(job.nranks)), least_line));
    }
  }
  return {};
}

bool Ranks::any_running() const {
  for (const RankProcess& process : processes_)
    if (process.running) return true;
  return false;
}

std::optional<Ending> Ranks::ended(size_t rank) {
  RankProcess& process = processes_[rank];
  siginfo_t info{};
  if (!process.running ||
      waitid(P_PID, id_t(process.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return {};
  process.running = false;
  return Ending{info.si_code != CLD_EXITED, info.si_status};
}

void Ranks::signal(int number) {
  for (const RankProcess& process : processes_)
    if (process.running) kill(-process.pid, number);
}

void Ranks::finish() {
  for (const RankProcess& process : processes_) kill(-process.pid, SIGKILL);
  end_descendants();
  processes_.clear();
}

}  // namespace tutti
