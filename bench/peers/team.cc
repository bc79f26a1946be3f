#include "bench/peers/team.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>

#include "bench/error.h"
#include "bench/peers/descriptor.h"
#include "bench/peers/gate.h"

namespace tutti::bench {
namespace {

constexpr size_t words_kept = 400;  // of what a failed team printed

int ms_until(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = deadline - std::chrono::steady_clock::now();
  return int(std::max<int64_t>(0, std::chrono::duration_cast<milliseconds>(left).count()));
}

// The process at the other end as the kernel knows it; 0 if it is another user's.
pid_t own_process(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return 0;
  return peer.uid == geteuid() && peer.pid > 1 ? peer.pid : 0;
}

}  // namespace

Meeting::Meeting() {
  std::random_device random;
  name_ = fmt::format("tutti-bench-{}-{:08x}{:08x}", getpid(), random(), random());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name_.data(), name_.size());
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 ||
      bind(fd_, reinterpret_cast<sockaddr*>(&address),
           socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name_.size())) != 0 ||
      listen(fd_, 1024) != 0)
    throw Failure(fmt::format("cannot listen for ranks: {}", std::strerror(errno)));
}

Meeting::~Meeting() { close(fd_); }

int Meeting::accept(PeerHello* hello) const {
  pollfd waiting{fd_, POLLIN, 0};
  if (poll(&waiting, 1, 100) != 1) return -1;
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return -1;
  const timeval limit{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const pid_t pid = own_process(fd);
  if (pid && recv(fd, hello, sizeof *hello, MSG_WAITALL) == ssize_t(sizeof *hello) &&
      hello->magic == peer_magic) {
    hello->pid = pid;
    return fd;
  }
  close(fd);
  return -1;
}

Team::Team(const Contender& contender, int nranks, std::chrono::milliseconds patience)
    : contender_(contender), patience_(patience), members_(size_t(nranks)) {}

Team::~Team() {
  for (Member& member : members_) {
    const PeerOrder quit;
    if (alive() && member.fd >= 0) send(member.fd, &quit, sizeof quit, MSG_NOSIGNAL);
  }
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (alive() && ms_until(deadline) > 0) {
    const bool running = std::any_of(processes_.begin(), processes_.end(), [](pid_t& pid) {
      if (pid > 0 && waitpid(pid, nullptr, WNOHANG) == pid) pid = 0;
      return pid > 0;
    });
    if (!running) break;
    usleep(10000);
  }
  kill_all();
  for (Member& member : members_)
    if (member.fd >= 0) close(member.fd);
  if (log_ >= 0) close(log_);
  if (gate_ >= 0) close(gate_);
}

void Team::start() {
  log_ = memfd_create("tutti-bench-log", MFD_CLOEXEC);
  gate_ = memfd_create("tutti-bench-gate", MFD_CLOEXEC);
  if (ftruncate(gate_, off_t(Gate::bytes(int(members_.size())))) != 0)
    return fail(fmt::format("no memory for ranks to meet in: {}", std::strerror(errno)));
  for (const Commandline& command : contender_.commands) spawn(command);
}

void Team::spawn(const Commandline& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(fmt::format("cannot start: {}", std::strerror(errno)));
  if (pid > 0) {
    processes_.push_back(pid);
    return;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log_, STDOUT_FILENO);
  dup2(log_, STDERR_FILENO);
  for (const auto& [name, value] : contender_.environment) setenv(name.c_str(), value.c_str(), 1);
  execvp(argv[0], argv.data());
  _exit(127);
}

void Team::join(int fd, const PeerHello& hello) {
  Member& member = members_[size_t(hello.rank) % members_.size()];
  if (hello.rank < 0 || size_t(hello.rank) >= members_.size() || member.fd >= 0) {
    close(fd);
    return fail(fmt::format("rank {} came, but ranks are 0 to {}, each once", hello.rank,
                            members_.size() - 1));
  }
  member.fd = fd;
  member.hello = hello;
  if (!DescriptorMessage().send(fd, gate_)) fail(fmt::format("rank {} ended", hello.rank));
}

bool Team::settled() {
  if (!alive()) return true;
  if (std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.fd >= 0; }))
    return true;
  if (process_ended()) fail("ended before all ranks had started");
  return !alive();
}

bool Team::prepare(size_t bytes) {
  PeerOrder o;
  o.task = PeerTask::prepare;
  o.bytes = bytes;
  return order(o, nullptr, nullptr);
}

bool Team::check(uint64_t* wrong) {
  PeerOrder o;
  o.task = PeerTask::check;
  std::vector<PeerReply> replies;
  if (!order(o, &replies, nullptr)) return false;
  *wrong = 0;
  for (const PeerReply& reply : replies) *wrong += reply.wrong;
  return true;
}

bool Team::run(uint64_t warm_calls, uint64_t calls, uint64_t batches, Data data,
               std::vector<double>* us) {
  PeerOrder o;
  o.task = PeerTask::run;
  o.warm_calls = warm_calls;
  o.calls = calls;
  o.batches = batches;
  o.live = data == Data::live;
  std::vector<std::vector<double>> times;
  if (!order(o, nullptr, &times)) return false;
  us->assign(batches, 0);
  for (const auto& rank : times)
    for (size_t i = 0; i < batches; ++i) (*us)[i] = std::max((*us)[i], rank[i]);
  return true;
}

bool Team::order(const PeerOrder& order, std::vector<PeerReply>* replies,
                 std::vector<std::vector<double>>* batches) {
  if (!alive()) return false;
  for (Member& member : members_) {
    if (send(member.fd, &order, sizeof order, MSG_NOSIGNAL) != ssize_t(sizeof order)) {
      fail(fmt::format("rank {} ended", member.hello.rank));
      return false;
    }
  }
  const Deadline deadline = std::chrono::steady_clock::now() + patience_;
  for (Member& member : members_) {
    PeerReply reply;
    std::vector<double> times(order.task == PeerTask::run ? order.batches : 0);
    if (!read_from(member, &reply, sizeof reply, deadline) ||
        !read_from(member, times.data(), times.size() * sizeof(double), deadline))
      return false;
    if (replies) replies->push_back(reply);
    if (batches) batches->push_back(std::move(times));
  }
  return true;
}

bool Team::read_from(Member& member, void* data, size_t bytes, Deadline deadline) {
  for (auto* at = static_cast<char*>(data); bytes;) {
    pollfd waiting{member.fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, ms_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      fail(fmt::format("rank {} did not answer within {} s: hangs, or is far too slow",
                       member.hello.rank, double(patience_.count()) / 1000));
      return false;
    }
    const ssize_t got = recv(member.fd, at, bytes, 0);
    if (got <= 0) {
      fail(fmt::format("rank {} ended", member.hello.rank));
      return false;
    }
    at += got;
    bytes -= size_t(got);
  }
  return true;
}

bool Team::process_ended() {
  return std::any_of(processes_.begin(), processes_.end(), [](pid_t& pid) {
    if (pid <= 0 || waitpid(pid, nullptr, WNOHANG) != pid) return false;
    pid = 0;
    return true;
  });
}

std::string Team::last_words() const {
  const off_t size = lseek(log_, 0, SEEK_CUR);
  const off_t from = std::max<off_t>(0, size - off_t(words_kept));
  std::string text(size_t(size - from), ' ');
  const ssize_t got = pread(log_, text.data(), text.size(), from);
  text.resize(size_t(std::max<ssize_t>(0, got)));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void Team::fail(const std::string& why) {
  if (!alive()) return;
  failure_ = why;
  const std::string words = last_words();
  if (!words.empty()) failure_ += " (it said: " + words + ")";
  kill_all();
}

// Ranks' process ids come from the kernel; launchers are our children and lead process groups of
// their own.
void Team::kill_all() {
  for (Member& member : members_)
    if (member.fd >= 0 &&
        std::any_of(processes_.begin(), processes_.end(), [](pid_t pid) { return pid > 0; }))
      kill(member.hello.pid, SIGKILL);
  for (pid_t& pid : processes_) {
    if (pid <= 0) continue;
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
}

std::string Team::version() const {
  std::string text = members_.front().hello.version;
  text = text.substr(0, text.find_first_of(",\n"));
  const size_t mark = text.find("Version:");
  if (mark != std::string::npos)
    text.replace(mark, text.find_first_not_of(" \t", mark + 8) - mark, "");
  return text;
}

std::string Team::binding() const {
  std::vector<std::string> cpus;
  for (const Member& member : members_) cpus.emplace_back(member.hello.cpus);
  return fmt::format("{}", fmt::join(cpus, " | "));
}

}  // namespace tutti::bench
