// Whom a call that runs out of time names: the rank that keeps the others waiting, not one that
// waits itself, in whatever calls they are.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

tutti_call_config within_ms(int64_t ms) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.timeout_ms = ms;
  return config;
}

// Rank 1 needs all others, which need nobody.
tutti_status gather_at_1(tutti_comm comm) {
  const int32_t mine = 7;
  int32_t all[3] = {};
  return tutti_gather(&mine, all, 1, TUTTI_INT32, 1, comm);
}
tutti_status receive_from_1(tutti_comm comm) {
  const tutti_call_config config = within_ms(700);
  int32_t word = 0;
  return tutti_recv_with(&word, 1, TUTTI_INT32, 1, 0, comm, &config);
}
tutti_status broadcast_from_1(tutti_comm comm) {
  tutti_call_config config = within_ms(700);
  config.algorithm = "flat";  // rank 0 waits for rank 1 alone
  int32_t word = 0;
  return tutti_broadcast_with(&word, 1, TUTTI_INT32, 1, comm, &config);
}

void expect_named(tutti_comm comm, int rank, const std::string& words) {
  tutti_error error{};
  ASSERT_EQ(tutti_comm_last_error(comm, &error), TUTTI_OK);
  EXPECT_EQ(error.status, TUTTI_TIMEOUT);
  EXPECT_EQ(error.rank, rank) << error.text;
  EXPECT_NE(std::string(error.text).find(words), std::string::npos) << error.text;
}

class NamedRank : public ::testing::TestWithParam<const char*> {
 protected:
  // Rank 0 has done its part of a gather, in which rank 1 waits for rank 2, and goes on.
  void expect_2_named(tutti_status (*next)(tutti_comm)) const {
    std::atomic<bool> over = false;
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 2) {
        while (!over) sleep_ms(1);
        EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
        return;
      }
      const tutti_status gathered = gather_at_1(comm);
      if (rank == 1) {
        EXPECT_NE(gathered, TUTTI_OK);
        return;
      }
      EXPECT_EQ(gathered, TUTTI_OK) << sentence(comm);
      EXPECT_EQ(next(comm), TUTTI_TIMEOUT);
      expect_named(comm, 2, "rank 0 waited for rank 1, which waited for rank 2");
      over = true;
    });
  }
};

TEST_P(NamedRank, IsTheOneThatAnEarlierCallOfTheSenderWaitsFor) { expect_2_named(receive_from_1); }

TEST_P(NamedRank, IsTheOneThatAnEarlierCallOfAPeerWaitsFor) { expect_2_named(broadcast_from_1); }

// The wait is seen in tutti_test(), and over when tutti_wait() looks.
tutti_status gather_at_1_and_test(tutti_comm comm) {
  const int32_t mine = 7;
  int32_t all[3] = {};
  tutti_request request = nullptr;
  tutti_status status = tutti_igather(&mine, all, 1, TUTTI_INT32, 1, comm, nullptr, &request);
  for (int i = 0, done = 0; status == TUTTI_OK && done == 0 && i < 30; ++i) {
    sleep_ms(5);
    status = tutti_test(&request, &done);
  }
  sleep_ms(200);
  return status == TUTTI_OK ? tutti_wait(&request) : status;
}

// Not the one that it has waited for before.
TEST_P(NamedRank, IsTheOneThatDoesNotWaitAnyMore) {
  for (const bool tests : {false, true}) {
    const auto next = tests ? receive_from_1 : broadcast_from_1;
    std::atomic<bool> over = false;
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 2) sleep_ms(200);
      const tutti_status gathered =
          tests && rank == 1 ? gather_at_1_and_test(comm) : gather_at_1(comm);
      EXPECT_EQ(gathered, TUTTI_OK) << sentence(comm);
      if (rank == 0) {
        EXPECT_EQ(next(comm), TUTTI_TIMEOUT);
        expect_named(comm, 1, "rank 0 waited for rank 1, wh");
        over = true;
        return;
      }
      while (!over) sleep_ms(1);
      EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, NamedRank, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
