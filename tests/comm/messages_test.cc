// Messages between pairs of ranks: sendrecv and groups move in both directions at once, in order
// per pair, and end in an error that names who is missing.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

class Messages : public ::testing::TestWithParam<const char*> {};

TEST_P(Messages, GoRoundARingAtOnce) {
  for (const int nranks : {2, 3, 5}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      // More than the buffers in between hold, so nobody could send first and receive then.
      for (const size_t count : {size_t{0}, size_t{1}, size_t{3'000'000}}) {
        std::vector<int32_t> mine(count, rank), got(count, -1);
        const int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
        ASSERT_EQ(tutti_sendrecv(mine.data(), count, next, 5, got.data(), count, previous, 5,
                                 TUTTI_INT32, comm),
                  TUTTI_OK)
            << sentence(comm);
        EXPECT_EQ(got, std::vector<int32_t>(count, previous));
      }
    });
  }
}

TEST_P(Messages, HalfAnExchangeIsASendOrAReceive) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t value = rank == 0 ? 42 : 0;
    ASSERT_EQ(tutti_sendrecv(&value, 1, rank == 0 ? 1 : TUTTI_NO_PEER, 0, &value, 1,
                             rank == 0 ? TUTTI_NO_PEER : 0, 0, TUTTI_INT32, comm),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(value, 42);
    EXPECT_EQ(tutti_sendrecv(nullptr, 0, TUTTI_NO_PEER, 0, nullptr, 0, TUTTI_NO_PEER, 0,
                             TUTTI_INT32, comm),
              TUTTI_OK);
  });
}

// Of a rank without neighbours: it is no call that the others would have to make, too.
TEST_P(Messages, AnExchangeWithNobodyIsNothing) {
  for (const int nranks : {1, 2}) {
    on_comm(nranks, GetParam(), [](int rank, tutti_comm comm) {
      int32_t one = 1, sum = 0;
      const auto begin_nothing = [&](tutti_request* request, bool starts_at_once) {
        const auto make = starts_at_once ? tutti_isendrecv : tutti_sendrecv_init;
        ASSERT_EQ(make(nullptr, 0, TUTTI_NO_PEER, 0, nullptr, 0, TUTTI_NO_PEER, 0, TUTTI_INT32,
                       comm, nullptr, request),
                  TUTTI_OK)
            << sentence(comm);
      };
      tutti_request requests[3] = {};
      if (rank == 0) begin_nothing(&requests[0], true);
      ASSERT_EQ(
          tutti_iallreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr, &requests[1]),
          TUTTI_OK);
      if (rank == 0) {
        begin_nothing(&requests[2], false);
        ASSERT_EQ(tutti_start(requests[2]), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(tutti_sendrecv(nullptr, 0, TUTTI_NO_PEER, 0, nullptr, 0, TUTTI_NO_PEER, 0,
                                 TUTTI_INT32, comm),
                  TUTTI_OK);
      }
      ASSERT_EQ(tutti_waitall(3, requests), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(tutti_request_free(&requests[2]), TUTTI_OK);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

TEST_P(Messages, OfAGroupGoAllAtOnceAndInOrderPerPair) {
  constexpr int nranks = 4;
  constexpr size_t count = 200'000;
  on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
    // Everybody to everybody, two of different lengths each, receives noted before sends.
    std::vector<std::vector<int64_t>> first(nranks), second(nranks);
    const std::vector<int64_t> mine(count, rank), more = {rank * 100, rank * 100 + 1};
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    for (int peer = 0; peer < nranks; ++peer) {
      if (peer == rank) continue;
      first[peer].assign(count, -1);
      second[peer].assign(2, -1);
      ASSERT_EQ(tutti_recv(first[peer].data(), count, TUTTI_INT64, peer, 1, comm), TUTTI_OK);
      ASSERT_EQ(tutti_recv(second[peer].data(), 2, TUTTI_INT64, peer, 2, comm), TUTTI_OK);
    }
    for (int peer = 0; peer < nranks; ++peer) {
      if (peer == rank) continue;
      ASSERT_EQ(tutti_send(mine.data(), count, TUTTI_INT64, peer, 1, comm), TUTTI_OK);
      ASSERT_EQ(tutti_send(more.data(), 2, TUTTI_INT64, peer, 2, comm), TUTTI_OK);
    }
    ASSERT_EQ(tutti_group_end(comm), TUTTI_OK) << sentence(comm);
    for (int peer = 0; peer < nranks; ++peer) {
      if (peer == rank) continue;
      EXPECT_EQ(first[peer], std::vector<int64_t>(count, peer));
      EXPECT_EQ(second[peer], (std::vector<int64_t>{peer * 100, peer * 100 + 1}));
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
  });
}

TEST_P(Messages, AGroupTakesNoCollectiveCallsAndNoSecondGroup) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    EXPECT_EQ(tutti_group_begin(comm), TUTTI_INVALID);
    EXPECT_EQ(tutti_barrier(comm), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("tutti_group_begin()"), std::string::npos) << sentence(comm);
    tutti_comm made = nullptr;
    EXPECT_EQ(tutti_comm_dup(comm, &made), TUTTI_INVALID);
    void* memory = nullptr;
    EXPECT_EQ(tutti_mem_alloc(comm, 64, &memory), TUTTI_INVALID);
    ASSERT_EQ(tutti_group_end(comm), TUTTI_OK);
    EXPECT_EQ(tutti_group_end(comm), TUTTI_INVALID);
    EXPECT_EQ(tutti_group_cancel(comm), TUTTI_INVALID);
    // What was cancelled is not sent.
    int32_t value = 1;
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    ASSERT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 1 - rank, 0, comm), TUTTI_OK);
    ASSERT_EQ(tutti_group_cancel(comm), TUTTI_OK);
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_P(Messages, OfAGroupThatDisagreeAreNamed) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t out[4] = {}, in[4] = {};
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    ASSERT_EQ(tutti_send(out, 4, TUTTI_INT32, 1 - rank, 3, comm), TUTTI_OK);
    ASSERT_EQ(tutti_recv(in, rank == 0 ? 4 : 3, TUTTI_INT32, 1 - rank, 3, comm), TUTTI_OK);
    tutti_status status = tutti_group_end(comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    EXPECT_EQ(status, TUTTI_MISMATCH) << sentence(comm);
    EXPECT_NE(sentence(comm).find("message of"), std::string::npos) << sentence(comm);
  });
}

TEST_P(Messages, ThatNobodySendsEndAtTheDeadlineAndNameThePeer) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 1) return;
    int32_t in = 0, out = 0;
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 100;
    const tutti_status status =
        tutti_sendrecv_with(&out, 1, 1, 0, &in, 1, 1, 0, TUTTI_INT32, comm, &config);
    // Or the peer has freed its communicator by then.
    EXPECT_TRUE(status == TUTTI_TIMEOUT || status == TUTTI_PEER_FAILED) << sentence(comm);
    EXPECT_NE(sentence(comm).find("rank 1"), std::string::npos) << sentence(comm);
  });
}

TEST_P(Messages, OfARankThatHasGoneAreNotWaitedForButWhatItSentArrives) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    std::vector<int32_t> sent(20'000, 7), got(20'000);
    if (rank == 1) {
      ASSERT_EQ(tutti_send(sent.data(), sent.size(), TUTTI_INT32, 0, 0, comm), TUTTI_OK);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(tutti_recv(got.data(), got.size(), TUTTI_INT32, 1, 0, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(got, sent);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tutti_recv(got.data(), 1, TUTTI_INT32, 1, 0, comm), TUTTI_PEER_FAILED);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_NE(sentence(comm).find("rank 1 has freed the communicator"), std::string::npos)
        << sentence(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Messages,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
