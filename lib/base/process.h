// Which process this is, where fork() makes two of one, and how it ends: a child leaves alone what
// is its parent's, connections are closed in it, and who has to know is told of an exit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/base/fd.h"

namespace tutti::process {

namespace detail {
// The process's number, on a page that the kernel clears in children. Null: nobody has asked yet.
extern std::atomic<uint32_t*> number;
}  // namespace detail

// A number that neither the parent has nor any other child of its that has asked. Not zero.
uint32_t number_of_this();

// Whether `number`, from number_of_this(), is this process's. Two loads.
[[gnu::always_inline]] inline bool is_this(uint32_t number) {
  const std::atomic_ref there(*detail::number.load(std::memory_order_relaxed));
  return there.load(std::memory_order_relaxed) == number;
}

// One T a process. A child gets a new one: a thread that the child lacks may have held a lock of
// the parent's. Never destroyed, so that it outlives every thread.
template <class T>
T& own() {
  struct Owned {
    uint32_t number = number_of_this();
    Owned* parents = nullptr;
    T value;
  };
  static std::atomic<Owned*> current{nullptr};
  Owned* there = current.load(std::memory_order_acquire);
  while (there == nullptr || !is_this(there->number)) {
    auto made = std::make_unique<Owned>();
    made->parents = there;
    if (current.compare_exchange_strong(there, made.get())) there = made.release();
  }
  return there->value;
}

// While one lives no other thread gets to fork(): a descriptor is opened and marked in one go.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

// In children made by fork() the descriptor's number stands for /dev/null, until this process has
// closed it. So a connection ends with the process that made it, whoever lives on. A child made by
// _Fork() or clone() keeps it until it calls exec().
void keep_from_children(const Fd& fd);

// Told when the process ends in order, in whichever way and also within a signal handler: at_exit()
// must neither allocate nor wait. Not told in children.
class Leaver {
 public:
  virtual ~Leaver() = default;
  virtual void at_exit() noexcept = 0;
};
void add(Leaver* leaver);
void remove(Leaver* leaver);

}  // namespace tutti::process
