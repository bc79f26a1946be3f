// More ranks than cores: nobody burns a core that another needs, and nobody starves.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

double processor_seconds() {  // of this thread
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

class Fairness : public ::testing::TestWithParam<const char*> {};

TEST_P(Fairness, WaitingForALateRankCostsLittle) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t value = rank;
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    const double before = processor_seconds();
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    if (rank == 0) {
      EXPECT_LT(processor_seconds() - before, 0.2);
    }
  });
}

struct Turns {
  double of_most;  // the processor time of the rank that had least, of that of the one with most
  double seconds_call;  // of a call
};

Turns take_turns(const char* transport, int nranks) {
  constexpr int calls = 500;
  std::vector<double> used(static_cast<size_t>(nranks));
  double seconds = 0;
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    const double before = processor_seconds();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      int32_t value = rank;
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(value, nranks * (nranks - 1) / 2);
    }
    used[size_t(rank)] = processor_seconds() - before;
    if (rank == 0) {
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  });
  const auto [least, most] = std::minmax_element(used.begin(), used.end());
  return {*least / *most, seconds / calls};
}

TEST_P(Fairness, RanksTakeTurnsOnTheirCores) {
  constexpr int nranks = 8, tries = 4;
  const int cores = int(std::thread::hardware_concurrency());
  if (cores >= nranks) GTEST_SKIP() << "every rank has a core of its own";
  Turns best{0, 1};
  // Another process may have a core for as long as a try takes.
  for (int i = 0; i < tries && (best.of_most < 0.1 || best.seconds_call > 2e-3); ++i) {
    const Turns turns = take_turns(GetParam(), nranks);
    best.of_most = std::max(best.of_most, turns.of_most);
    best.seconds_call = std::min(best.seconds_call, turns.seconds_call);
  }
  EXPECT_GT(best.of_most, 0.1) << "a rank was kept from running while another spun";
  EXPECT_LT(best.seconds_call, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Transports, Fairness, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
