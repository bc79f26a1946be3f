// Ranks as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "trainer/parallel/split.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

class Ranks {
 public:
  explicit Ranks(int n) : comms_(size_t(n)) {
    const tutti_unique_id id = make_unique_id();
    each([&](int rank) { comms_[size_t(rank)] = communicator::from_id(id, rank, n); });
  }
  int size() const { return int(comms_.size()); }
  const communicator& comm(int rank) const { return comms_[size_t(rank)]; }
  Group group(int rank) const {
    return {&comms_[size_t(rank)], rank, size(), TUTTI_CALL_CONFIG_INIT};
  }
  // Runs body(rank) on a thread a rank. One that throws is a failure of the test, and ends the
  // others.
  void each(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([this, &body, rank] {
        try {
          body(rank);
        } catch (const std::exception& failed) {
          ADD_FAILURE() << "rank " << rank << ": " << failed.what();
          if (comms_[size_t(rank)]) comms_[size_t(rank)].abort("the test failed");
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<communicator> comms_;
};

}  // namespace tutti::train
