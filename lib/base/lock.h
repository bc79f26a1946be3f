// A lock for a few hundred instructions at a time, cheap where nobody else wants it.
#pragma once

#include <sched.h>

#include <atomic>

namespace tutti {

class Lock {
 public:
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) sched_yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace tutti
