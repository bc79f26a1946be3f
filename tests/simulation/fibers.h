// Ranks as fibers: each has its own stack, one runs at a time, and the one that stops names the
// next one.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

namespace tutti::simulation {

class Fibers {
 public:
  static constexpr size_t stack_bytes = 256 << 10;

  // Puts a fiber that has not run yet in place `index`. `body` must not throw; it returns the fiber
  // to switch to, or -1 for the caller of run().
  void begin(size_t index, std::function<int()> body) {
    if (fibers_.size() <= index) fibers_.resize(index + 1);
    Fiber& fiber = fibers_[index];
    if (fiber.stack == nullptr) fiber.stack = std::make_unique<std::byte[]>(stack_bytes);
    fiber.body = std::move(body);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 3, unsigned(self),
                unsigned(self >> 32), unsigned(index));
  }
  // Runs fiber `index`, and those that it switches to, until one returns to the caller (-1).
  void run(size_t index) {
    current_ = int(index);
    swapcontext(&main_, &fibers_[index].context);
    current_ = -1;
  }
  // From within a fiber: switches to another, or to the caller of run() (-1).
  void switch_to(int next) {
    const int self = current_;
    if (next == self) return;
    current_ = next;
    swapcontext(&fibers_[size_t(self)].context, next < 0 ? &main_ : &fibers_[size_t(next)].context);
  }
  int current() const { return current_; }

 private:
  struct Fiber {
    std::unique_ptr<std::byte[]> stack;
    std::function<int()> body;
    ucontext_t context;
  };

  static void enter(unsigned low, unsigned high, unsigned index) {
    auto* const self = reinterpret_cast<Fibers*>(uintptr_t(low) | uintptr_t(high) << 32);
    const int next = self->fibers_[index].body();
    self->current_ = next;
    setcontext(next < 0 ? &self->main_ : &self->fibers_[size_t(next)].context);
  }

  std::vector<Fiber> fibers_;
  ucontext_t main_;
  int current_ = -1;
};

}  // namespace tutti::simulation
