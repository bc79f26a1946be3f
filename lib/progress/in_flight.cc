#include "lib/progress/in_flight.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/process.h"

namespace tutti::in_flight {

namespace {

// How long the progress thread sleeps: briefly when nothing moved, since a peer may be about to
// answer; while streams trickle, as long as a few times Link::short_move_bytes take to arrive,
// which sockets' buffers hold. 4 MiB at 1 Gbit/s, polled every 50 us, took a third of the
// processor.
constexpr std::chrono::microseconds least_rest{50}, most_rest{2000};
constexpr int few_moves = 1, many_moves = 4;

// What every wait reads. Beside the registry, because making that allocates: a wait must not.
constinit std::atomic<uint32_t> member_count{0};

struct Registry {
  std::mutex mutex;
  std::vector<Member*> members;

  std::mutex thread_mutex;  // guards what follows; taken before `mutex` where both are taken
  std::condition_variable_any changed;
  std::jthread thread;
  std::atomic<bool> asleep{false};
  std::atomic<uint32_t> thread_users{0};
};

// A child made by fork() has none of its parent's members, and not its thread.
Registry& registry() { return process::own<Registry>(); }

void work(const std::stop_token& stop) {
  Registry& r = registry();
  auto rest = least_rest;
  int moves = 0;  // since the last rest
  while (!stop.stop_requested()) {
    const Moved moved = advance_all();
    if (moved == Moved::freely) {
      ++moves;
      continue;
    }
    if (moved == Moved::nothing) {
      rest = least_rest;
    } else if (moves <= few_moves) {
      rest = std::min(rest * 2, most_rest);
    } else if (moves >= many_moves) {
      rest = std::max(rest / 2, least_rest);
    }
    moves = 0;
    std::unique_lock lock(r.thread_mutex);
    r.asleep.store(true);
    if (busy()) {
      r.changed.wait_for(lock, stop, rest, [] { return false; });
    } else {
      r.changed.wait(lock, stop, busy);
    }
    r.asleep.store(false);
  }
}

}  // namespace

void add(Member* member) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.members.push_back(member);
  member_count.store(uint32_t(r.members.size()));
}

void remove(Member* member) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase(r.members, member);
  member_count.store(uint32_t(r.members.size()));
}

Moved advance_all() {
  if (member_count.load(std::memory_order_relaxed) == 0) return Moved::nothing;
  Registry& r = registry();
  const std::unique_lock lock(r.mutex, std::try_to_lock);
  if (!lock) return Moved::nothing;
  Moved moved = Moved::nothing;
  for (Member* const member : r.members) {
    if (member->busy()) moved = std::max(moved, member->advance_if_free());
  }
  return moved;
}

bool busy() {
  if (member_count.load(std::memory_order_relaxed) == 0) return false;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return std::any_of(r.members.begin(), r.members.end(),
                     [](const Member* member) { return member->busy(); });
}

Status use_progress_thread() {
  Registry& r = registry();
  const std::lock_guard lock(r.thread_mutex);
  try {
    if (r.thread_users.load() == 0) r.thread = std::jthread(work);
  } catch (const std::system_error& error) {
    return system_error("cannot start the progress thread", error.code().value());
  }
  ++r.thread_users;
  return {};
}

void release_progress_thread() {
  Registry& r = registry();
  std::jthread ended;  // asked to stop and joined at the end of this function, without the lock
  const std::lock_guard lock(r.thread_mutex);
  if (--r.thread_users == 0) ended = std::move(r.thread);
}

bool progress_thread_runs() { return registry().thread_users.load() != 0; }

void wake_progress_thread() {
  Registry& r = registry();
  // Either this sees that the thread sleeps, or the thread sees what was put in flight.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!r.asleep.load()) return;
  const std::lock_guard lock(r.thread_mutex);
  r.changed.notify_all();
}

}  // namespace tutti::in_flight
