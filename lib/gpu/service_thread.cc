#include "lib/gpu/service_thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/clock.h"

namespace tutti::service_thread {

namespace {

constexpr std::chrono::milliseconds period(10);

class Service {
 public:
  static Service& get() {
    static Service* const instance = new Service;  // outlives every thread
    return *instance;
  }

  void add(Watched* watched) {
    const std::lock_guard order(changes_);
    {
      const std::lock_guard lock(mutex_);
      watched_.push_back(watched);
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }

  void remove(Watched* watched) {
    const std::lock_guard order(changes_);
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      std::erase(watched_, watched);
      last = watched_.empty();
      if (last) changed_.notify_all();
    }
    if (last && thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!watched_.empty()) {
      changed_.wait_for(lock, period);
      for (Watched* one : watched_) one->look();
    }
  }

  std::mutex changes_;  // of the thread
  std::mutex mutex_;    // of who is watched
  std::condition_variable changed_;
  std::vector<Watched*> watched_;
  std::thread thread_;
};

}  // namespace

void add(Watched* watched) { Service::get().add(watched); }
void remove(Watched* watched) { Service::get().remove(watched); }

}  // namespace tutti::service_thread
