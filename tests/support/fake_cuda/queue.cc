#include <condition_variable>

#include "tests/support/fake_cuda/state.h"

namespace fake {

struct Queue::Shared {
  struct Item {
    Work work;
    std::vector<Token> after;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  uint64_t done = 0;
  bool closed = false;
};

bool Token::done() const {
  if (queue == nullptr) return true;
  const std::lock_guard lock(queue->shared_->mutex);
  return queue->shared_->done >= number;
}

void Token::wait() const {
  if (queue == nullptr) return;
  Queue::Shared& shared = *queue->shared_;
  std::unique_lock lock(shared.mutex);
  shared.changed.wait(lock, [&] { return shared.done >= number; });
}

Queue::Queue() : shared_(std::make_shared<Shared>()) {}

Queue::~Queue() { close(); }

void Queue::close() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed.notify_all();
}

Token Queue::push(Work work, std::vector<Token> after) {
  if (!started_) std::thread(run, shared_).detach();
  started_ = true;
  const std::lock_guard lock(shared_->mutex);
  shared_->items.push_back({std::move(work), std::move(after)});
  shared_->changed.notify_all();
  return {shared_from_this(), ++pushed_};
}

void Queue::run(std::shared_ptr<Shared> shared) {
  for (;;) {
    Shared::Item item;
    {
      std::unique_lock lock(shared->mutex);
      shared->changed.wait(lock, [&] { return shared->closed || !shared->items.empty(); });
      if (shared->items.empty()) return;
      item = std::move(shared->items.front());
      shared->items.pop_front();
    }
    for (const Token& token : item.after) token.wait();
    if (item.work) item.work();
    const std::lock_guard lock(shared->mutex);
    ++shared->done;
    shared->changed.notify_all();
  }
}

}  // namespace fake
