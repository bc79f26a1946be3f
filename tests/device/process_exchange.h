// An exchange among processes of the test, over memory that they inherit.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/control/exchange.h"
#include "tests/gpu/child.h"

namespace tutti::testing {

class ProcessExchangeGroup {
 public:
  explicit ProcessExchangeGroup(int nranks) : nranks_(nranks) {
    void* const memory = mmap(nullptr, sizeof(Slot) * size_t(nranks), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    slots_ = static_cast<Slot*>(memory);
  }
  ~ProcessExchangeGroup() { munmap(slots_, sizeof(Slot) * size_t(nranks_)); }
  ProcessExchangeGroup(const ProcessExchangeGroup&) = delete;
  ProcessExchangeGroup& operator=(const ProcessExchangeGroup&) = delete;

  int nranks() const { return nranks_; }

  Status allgather(int rank, std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) {
    const uint64_t round = slots_[rank].rounds.load() + 1;
    Text& text = slots_[rank].texts[round % 2];
    text.bytes = mine.size();
    std::memcpy(text.data, mine.data(), mine.size());
    slots_[rank].rounds.store(round);
    all->clear();
    for (int other = 0; other < nranks_; ++other) {
      while (slots_[other].rounds.load() < round) {
        if (now_ns() > deadline_ns) return {TUTTI_TIMEOUT, "the test's exchange timed out"};
        std::this_thread::yield();
      }
      // A rank is at most one round ahead of this one.
      const Text& theirs = slots_[other].texts[round % 2];
      all->emplace_back(theirs.data, theirs.bytes);
    }
    return {};
  }

 private:
  struct Text {
    size_t bytes;
    char data[64 << 10];
  };
  struct Slot {
    std::atomic<uint64_t> rounds;
    Text texts[2];
  };
  int nranks_;
  Slot* slots_;
};

class ProcessExchange final : public Exchange {
 public:
  ProcessExchange(ProcessExchangeGroup& group, int rank) : group_(group), rank_(rank) {
    key_.fill(7);
  }
  int rank() const override { return rank_; }
  int nranks() const override { return group_.nranks(); }
  const JobKey& key() const override { return key_; }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    return group_.allgather(rank_, mine, deadline_ns, all);
  }

 private:
  ProcessExchangeGroup& group_;
  int rank_;
  JobKey key_;
};

// Runs `body` in as many children; their failures are the test's. Ranks of `killed` end by SIGKILL.
inline void on_processes(int nranks, const std::function<void(Exchange&)>& body,
                         const std::vector<int>& killed = {}) {
  ProcessExchangeGroup group(nranks);
  std::vector<pid_t> children;
  fflush(nullptr);
  for (int rank = 0; rank < nranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(child_seconds());
    ProcessExchange exchange(group, rank);
    body(exchange);
    fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < nranks; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[size_t(rank)], &status, 0), children[size_t(rank)]);
    const bool to_be_killed = std::find(killed.begin(), killed.end(), rank) != killed.end();
    EXPECT_EQ(status, to_be_killed ? SIGKILL : 0) << "rank " << rank;
  }
}

}  // namespace tutti::testing
