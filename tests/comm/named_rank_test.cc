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
tutti_status gather(int, tutti_comm comm) { return gather_at_1(comm); }
tutti_status send_from_2_to_1(int rank, tutti_comm comm) {
  int32_t word = 7;
  if (rank == 0) return TUTTI_OK;
  return rank == 1 ? tutti_recv(&word, 1, TUTTI_INT32, 2, 0, comm)
                   : tutti_send(&word, 1, TUTTI_INT32, 1, 0, comm);
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
  // Rank 1 waits for rank 2 in `first`, in which rank 0 has nothing to do or does not wait, and
  // rank 0 for rank 1 in `next`.
  void expect_2_named(tutti_status (*first)(int, tutti_comm),
                      tutti_status (*next)(tutti_comm)) const {
    std::atomic<bool> over = false;
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 2) {
        while (!over) sleep_ms(1);
        EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
        return;
      }
      const tutti_status begun = first(rank, comm);
      if (rank == 1) {
        EXPECT_NE(begun, TUTTI_OK);
        return;
      }
      EXPECT_EQ(begun, TUTTI_OK) << sentence(comm);
      EXPECT_EQ(next(comm), TUTTI_TIMEOUT);
      expect_named(comm, 2, "rank 0 waited for rank 1, which waited for rank 2");
      over = true;
    });
  }
};

TEST_P(NamedRank, IsTheOneThatAnEarlierCallOfTheSenderWaitsFor) {
  expect_2_named(gather, receive_from_1);
}

TEST_P(NamedRank, IsTheOneThatAnEarlierCallOfAPeerWaitsFor) {
  expect_2_named(gather, broadcast_from_1);
}

TEST_P(NamedRank, IsTheOneFromWhichTheSenderReceives) {
  expect_2_named(send_from_2_to_1, receive_from_1);
}

TEST_P(NamedRank, IsTheOneFromWhichAPeerReceives) {
  expect_2_named(send_from_2_to_1, broadcast_from_1);
}

// The wait is seen in tutti_test(), and over when tutti_wait() looks.
tutti_status gather_and_test(int rank, tutti_comm comm) {
  if (rank != 1) return gather_at_1(comm);
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
  struct Case {
    tutti_status (*first)(int, tutti_comm);
    tutti_status (*next)(tutti_comm);
  };
  const Case cases[] = {{gather, broadcast_from_1},
                        {gather_and_test, receive_from_1},
                        {send_from_2_to_1, receive_from_1}};
  for (const Case& one : cases) {
    std::atomic<bool> over = false;
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 2) sleep_ms(200);
      EXPECT_EQ(one.first(rank, comm), TUTTI_OK) << sentence(comm);
      if (rank == 0) {
        EXPECT_EQ(one.next(comm), TUTTI_TIMEOUT);
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
