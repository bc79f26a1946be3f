// Ranks as threads of which one runs at a time: the one that stops names the next one.
#pragma once

#include <semaphore.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace tutti::network {

class Turns {
 public:
  // Runs `rank` on `n` threads, `first` first. It returns which one is next, or -1 when this one is
  // the last.
  void run(size_t n, int first, const std::function<int(int)>& rank) {
    turns_.reset(new Turn[n]);
    std::vector<std::thread> threads;
    for (int i = 0; i < int(n); ++i) {
      threads.emplace_back([this, i, &rank] {
        await(i);
        current_ = i;
        const int next = rank(i);
        current_ = -1;
        if (next >= 0) give(next);
      });
    }
    give(first);
    for (std::thread& thread : threads) thread.join();
  }
  // Returns when it is this one's turn again.
  void switch_to(int next) {
    const int self = current_;
    if (next == self) return;
    give(next);
    await(self);
  }
  // Of the calling thread; -1: it is none of them.
  static int current() { return current_; }

 private:
  struct Turn {
    Turn() { sem_init(&semaphore, 0, 0); }
    ~Turn() { sem_destroy(&semaphore); }
    sem_t semaphore;
  };
  void give(int to) { sem_post(&turns_[size_t(to)].semaphore); }
  void await(int self) {
    while (sem_wait(&turns_[size_t(self)].semaphore) != 0) continue;
  }

  std::unique_ptr<Turn[]> turns_;
  static inline thread_local int current_ = -1;
};

}  // namespace tutti::network
