#include "bench/builds/team.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/cores.h"
#include "bench/error.h"

namespace tutti::bench::builds {
namespace {

// A rank that spins longer than this waits for one that has no core, so it yields. It sleeps if
// yielding gives the core to others, which would keep it for a time slice each.
constexpr int most_spins = 20000;
constexpr int most_yields = 200;

void sleep_on(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit{0, 100'000'000};  // then the caller checks whether a rank failed
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void bind_rank(int rank, int nranks) {
  const auto& cores = usable_cores();
  if (cores.empty()) return;
  const size_t shared = size_t(rank) * cores.size() / size_t(nranks);
  bind_to_cpu(cores[size_t(nranks) <= cores.size() ? size_t(rank) : shared]);
}

[[noreturn]] void be_rank(Member& member, Meeting* meeting,
                          const std::function<void(Member&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_rank(member.rank(), member.nranks());
  try {
    body(member);
  } catch (const std::exception& error) {
    if (!meeting->failed.exchange(1))
      std::fprintf(stderr, "tutti-compare: rank %d: %s\n", member.rank(), error.what());
    _exit(1);
  }
  _exit(0);
}

}  // namespace

void* map_shared(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw Failure(std::string("cannot map memory: ") + std::strerror(errno));
  return at;
}

void run_team(int nranks, const std::function<void(Member&)>& body) {
  const bool crowded = size_t(nranks) > usable_cores().size();
  auto* meeting =
      static_cast<Meeting*>(map_shared(sizeof(Meeting) + size_t(nranks) * sizeof(Meeting::Place)));
  int running = 0;
  for (; running < nranks && !meeting->failed; ++running) {
    const pid_t pid = fork();
    if (pid < 0) {
      std::fprintf(stderr, "tutti-compare: cannot start a rank: %s\n", std::strerror(errno));
      meeting->failed = 1;
      break;
    }
    if (pid > 0) continue;
    Member member(meeting, running, nranks, crowded);
    be_rank(member, meeting, body);
  }
  for (int status = 0; running > 0 && wait(&status) > 0; --running) {
    if (status == 0) continue;
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "tutti-compare: a rank ended by signal %d\n", WTERMSIG(status));
    meeting->failed = 1;
  }
  if (meeting->failed) throw Failure("a rank failed");
}

void Member::check_failed() const {
  if (meeting_->failed.load(std::memory_order_relaxed)) throw Failure("another rank failed");
}

void Member::barrier() {
  const uint32_t generation = meeting_->generation.load();
  if (meeting_->arrived.fetch_add(1) + 1 == uint32_t(nranks_)) {
    meeting_->arrived = 0;
    ++meeting_->generation;
    if (meeting_->sleepers) wake_all(meeting_->generation);
    return;
  }
  for (int spins = 0; !crowded_ && spins < most_spins; ++spins) {
    if (meeting_->generation.load(std::memory_order_acquire) != generation) return;
    __builtin_ia32_pause();
  }
  for (int yields = 0; yields < most_yields; ++yields) {
    if (meeting_->generation.load(std::memory_order_acquire) != generation) return;
    sched_yield();
  }
  ++meeting_->sleepers;
  while (meeting_->generation.load() == generation) {
    check_failed();
    sleep_on(meeting_->generation, generation);
  }
  --meeting_->sleepers;
}

double Member::max(double value) {
  // A rank reuses a value only after a barrier that all enter after they have read it.
  const size_t turn = maxima_++ % 2;
  meeting_->places[rank_].values[turn] = value;
  barrier();
  for (int rank = 0; rank < nranks_; ++rank)
    value = std::max(value, meeting_->places[rank].values[turn]);
  return value;
}

void Member::allgather(const void* mine, void* all, size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(mine);
  auto* to = static_cast<unsigned char*>(all);
  for (size_t at = 0; at < bytes; at += Meeting::block_bytes) {
    const size_t part = std::min(Meeting::block_bytes, bytes - at);
    std::memcpy(meeting_->places[rank_].block, from + at, part);
    barrier();
    for (int rank = 0; rank < nranks_; ++rank)
      std::memcpy(to + size_t(rank) * bytes + at, meeting_->places[rank].block, part);
    barrier();
  }
}

void Member::alone(const std::function<void()>& work) {
  const uint32_t closed = meeting_->gate.load();
  barrier();
  if (first()) {
    work();
    ++meeting_->gate;
    wake_all(meeting_->gate);
  }
  while (meeting_->gate.load() == closed) {
    check_failed();
    sleep_on(meeting_->gate, closed);
  }
}

}  // namespace tutti::bench::builds
