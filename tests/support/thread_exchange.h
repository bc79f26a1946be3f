// An exchange among threads of the test: no sockets, and it cannot fail.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/control/exchange.h"

namespace tutti::testing {

class ThreadExchangeGroup {
 public:
  explicit ThreadExchangeGroup(int nranks) : texts_(size_t(nranks)) {}

  Status allgather(int rank, std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    texts_[size_t(rank)] = mine;
    if (++arrived_ == texts_.size()) {
      arrived_ = 0;
      ++round_;
      done_ = texts_;
      changed_.notify_all();
    } else {
      const auto left = std::chrono::nanoseconds(deadline_ns - std::min(deadline_ns, now_ns()));
      if (!changed_.wait_for(lock, left, [&] { return round_ != round; })) {
        return {TUTTI_TIMEOUT, "the test's exchange timed out"};
      }
    }
    *all = done_;
    return {};
  }
  int nranks() const { return int(texts_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, done_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<ThreadExchangeGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {
    key_.fill(7);
  }
  int rank() const override { return rank_; }
  int nranks() const override { return group_->nranks(); }
  const JobKey& key() const override { return key_; }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    return group_->allgather(rank_, mine, deadline_ns, all);
  }

 private:
  std::shared_ptr<ThreadExchangeGroup> group_;
  int rank_;
  JobKey key_;
};

// Runs body(rank) on `nranks` threads and joins them.
inline void on_threads(int nranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::testing
