#include "transports/ucx/progress_thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/process.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

namespace {

// The pause between two rounds; it doubles while nothing moves.
constexpr std::chrono::milliseconds least_rest{5}, most_rest{50};

class ProgressThread {
 public:
  // A child made by fork() lacks its parent's thread.
  static ProgressThread& get() { return process::own<ProgressThread>(); }

  void add(Worker* worker) {
    const std::lock_guard turn(threads_);
    const std::lock_guard lock(mutex_);
    workers_.push_back(worker);
    if (workers_.size() > 1) return;
    over_ = false;
    thread_ = std::thread([this] { work(); });
  }

  void remove(Worker* worker) {
    const std::lock_guard turn(threads_);
    {
      const std::lock_guard lock(mutex_);
      if (std::erase(workers_, worker) == 0 || !workers_.empty()) return;
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  bool runs() {
    const std::lock_guard lock(mutex_);
    return !workers_.empty();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    auto rest = least_rest;
    while (!over_) {
      bool moved = false;
      for (Worker* worker : workers_) moved = worker->look_after() || moved;
      rest = moved ? least_rest : std::min(2 * rest, most_rest);
      changed_.wait_for(lock, rest);
    }
  }

  std::mutex threads_;  // serialises starting and ending the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Worker*> workers_;
  std::thread thread_;
  bool over_ = false;
};

}  // namespace

void tend(Worker* worker) { ProgressThread::get().add(worker); }

bool progress_thread_runs() { return ProgressThread::get().runs(); }

void stop_tending(Worker* worker) { ProgressThread::get().remove(worker); }

}  // namespace tutti::ucx
