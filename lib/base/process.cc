#include "lib/base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "lib/base/clock.h"

namespace tutti::process {

namespace detail {
constinit std::atomic<uint32_t*> number{nullptr};
}  // namespace detail

namespace {

constinit std::mutex fork_mutex;

// The thread that forks goes on in the child, and may unlock there what it has locked.
void before_fork() { fork_mutex.lock(); }
void after_fork_in_parent() { fork_mutex.unlock(); }

// Only what a signal handler may do: other threads held locks when the child was made.
void after_fork_in_child() {
  const int error_number = errno;
  *detail::number.load(std::memory_order_relaxed) = 0;  // where the kernel has not cleared it
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  fd_marks.take_all([nothing](int fd) {
    if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) close(fd);
  });
  if (nothing >= 0) close(nothing);
  fork_mutex.unlock();
  errno = error_number;
}

// The page of the process's number, once the handlers above are there.
uint32_t* page_of_number() {
  static uint32_t* const page = [] {
    static uint32_t without_page = 0;
    const auto bytes = size_t(sysconf(_SC_PAGESIZE));
    void* const made =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t* const at = made == MAP_FAILED ? &without_page : static_cast<uint32_t*>(made);
    if (made != MAP_FAILED) madvise(made, bytes, MADV_WIPEONFORK);
    detail::number.store(at);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return at;
  }();
  return page;
}

// An exit within a signal handler may have interrupted the thread that holds the lock.
constexpr int64_t most_locked_ms = 50;

struct Leavers {
  std::mutex mutex;
  std::vector<Leaver*> all;
};

void tell_leavers() {
  Leavers& leavers = own<Leavers>();
  const uint64_t deadline_ns = deadline_after_ms(most_locked_ms);
  std::unique_lock lock(leavers.mutex, std::try_to_lock);
  while (!lock && now_ns() < deadline_ns) {
    sched_yield();
    lock.try_lock();
  }
  if (!lock) return;
  for (Leaver* const one : leavers.all) one->at_exit();
}

}  // namespace

uint32_t number_of_this() {
  static std::atomic<uint32_t> latest{0};  // a child goes on from its parent's
  const std::atomic_ref number(*page_of_number());
  uint32_t there = number.load();
  if (there != 0) return there;
  const uint32_t next = ++latest;
  return number.compare_exchange_strong(there, next) ? next : there;
}

NoFork::NoFork() {
  page_of_number();
  fork_mutex.lock();
}
NoFork::~NoFork() { fork_mutex.unlock(); }

void keep_from_children(const Fd& fd) {
  page_of_number();
  fd_marks.set(fd.get());
}

void add(Leaver* leaver) {
  static const bool told = std::atexit(tell_leavers) == 0 && at_quick_exit(tell_leavers) == 0;
  static_cast<void>(told);
  Leavers& leavers = own<Leavers>();
  const std::lock_guard lock(leavers.mutex);
  leavers.all.push_back(leaver);
}

void remove(Leaver* leaver) {
  Leavers& leavers = own<Leavers>();
  const std::lock_guard lock(leavers.mutex);
  std::erase(leavers.all, leaver);
}

}  // namespace tutti::process
