// The limit of a call: that the longest ones are no limit at all, from when it counts, and that a
// call which is slow, but never stands still, ends by it like any other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::on_threads;
using tutti::testing::sentence;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// 20 ms a piece, however short it is.
void slow_sum(const void* lower, const void* higher, void* out, size_t count, tutti_dtype, void*) {
  sleep_ms(20);
  for (size_t i = 0; i < count; ++i) {
    static_cast<int32_t*>(out)[i] =
        static_cast<const int32_t*>(lower)[i] + static_cast<const int32_t*>(higher)[i];
  }
}

class SlowSum {
 public:
  SlowSum() { EXPECT_EQ(tutti_op_create(slow_sum, nullptr, 1, &op_), TUTTI_OK); }
  ~SlowSum() { EXPECT_EQ(tutti_op_free(op_), TUTTI_OK); }
  tutti_op op() const { return op_; }

 private:
  tutti_op op_ = TUTTI_SUM;
};

class Limits : public ::testing::TestWithParam<const char*> {};

TEST_P(Limits, TheLongestOnesNeverPass) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(2, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = GetParam();
    config.timeout_ms = INT64_MAX;
    config.setup_ms = INT64_MAX;
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    tutti_call_config longest = TUTTI_CALL_CONFIG_INIT;
    // About where milliseconds become too many nanoseconds, and where the clock is added to them.
    for (const int64_t ms : {int64_t{0}, INT64_MAX, INT64_MAX - 1, INT64_MAX / 1'000'000,
                             int64_t{18'446'744'073'709}, int64_t{18'446'744'073'710}}) {
      longest.timeout_ms = ms;
      if (rank == 1) sleep_ms(50);  // so that the other one waits
      int32_t in = 3, out = 0;
      ASSERT_EQ(tutti_allreduce_with(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, comm, &longest),
                TUTTI_OK)
          << ms << ": " << sentence(comm);
      ASSERT_EQ(out, 6);
      if (rank == 1) sleep_ms(20);
      tutti_request request = nullptr;
      ASSERT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, comm, &longest, &request),
                TUTTI_OK);
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << ms << ": " << sentence(comm);
      if (rank == 1) sleep_ms(20);
      ASSERT_EQ(tutti_sendrecv_with(&in, 1, 1 - rank, 0, &out, 1, 1 - rank, 0, TUTTI_INT32, comm,
                                    &longest),
                TUTTI_OK)
          << ms << ": " << sentence(comm);
      if (rank == 1) sleep_ms(20);
      const tutti_sparse_in entries{nullptr, nullptr, 0};
      tutti_sparse_out merged{};
      ASSERT_EQ(tutti_allreduce_sparse_with(&entries, &merged, 10, TUTTI_FLOAT32, TUTTI_SUM, comm,
                                            &longest),
                TUTTI_OK)
          << ms << ": " << sentence(comm);
    }
    tutti_comm part = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &part), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_comm_free(part), TUTTI_OK);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

TEST_P(Limits, NegativeOnesAreRefused) {
  on_comm(1, GetParam(), [](int, tutti_comm comm) {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = INT64_MIN;
    EXPECT_EQ(tutti_barrier_with(comm, &config), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("negative"), std::string::npos);
  });
}

// What a slow sum adds up; nobody looks at the results.
constexpr size_t most_elements = 24 << 20;
const int32_t* addends() {
  static const std::vector<int32_t> all(most_elements);
  return all.data();
}
std::unique_ptr<int32_t[]> room_for(size_t count) {
  return std::make_unique_for_overwrite<int32_t[]>(count);
}

// Every rank has something to do all the time, more than a minute of it.
TEST_P(Limits, ACallThatNeverStandsStillEndsByThem) {
  const SlowSum slow;
  struct Way {
    const char* algorithm;
    uint32_t flags;
    size_t count;
  };
  for (const int nranks : {2, 3}) {
    for (const Way& way : {Way{"auto", 0, 6 << 20}, Way{"auto", TUTTI_CALL_UNFUSED, most_elements},
                           Way{"ring", TUTTI_CALL_UNFUSED, most_elements}}) {
      std::atomic<Clock::time_point> first = Clock::time_point::max();
      on_comm(nranks, GetParam(), [&](int, tutti_comm comm) {
        const auto out = room_for(way.count);
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.timeout_ms = 300;
        config.algorithm = way.algorithm;
        config.flags = way.flags;
        const auto begin = Clock::now();
        for (auto least = first.load();
             begin < least && !first.compare_exchange_weak(least, begin);) {
        }
        const tutti_status status = tutti_allreduce_with(addends(), out.get(), way.count,
                                                         TUTTI_INT32, slow.op(), comm, &config);
        EXPECT_EQ(status, TUTTI_TIMEOUT) << way.algorithm << ": " << sentence(comm);
        // One rank's limit ends the call on all: that of the first to begin, or a later one.
        EXPECT_GT(seconds_since(first), 0.299);
        EXPECT_LT(seconds_since(begin), 5) << way.algorithm << ", " << nranks;
        EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
      });
    }
  }
}

// The root takes in piece after piece without ever coming back from the step that it is in.
TEST_P(Limits, AReductionToOneRankEndsByThem) {
  const SlowSum slow;
  on_comm(2, GetParam(), [&](int, tutti_comm comm) {
    const auto out = room_for(most_elements);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 300;
    config.flags = TUTTI_CALL_UNFUSED;
    const auto begin = Clock::now();
    tutti_status status = tutti_reduce_with(addends(), out.get(), most_elements, TUTTI_INT32,
                                            slow.op(), 0, comm, &config);
    if (status == TUTTI_OK) status = tutti_barrier_with(comm, &config);
    EXPECT_EQ(status, TUTTI_TIMEOUT) << sentence(comm);
    EXPECT_LT(seconds_since(begin), 5);
  });
}

TEST_P(Limits, OfANonblockingCallTheyCountFromTheWait) {
  const SlowSum slow;
  on_comm(2, GetParam(), [&](int, tutti_comm comm) {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 300;
    constexpr size_t count = 6 << 20;
    const auto out = room_for(count);
    tutti_request request = nullptr;
    ASSERT_EQ(tutti_iallreduce(addends(), out.get(), 100, TUTTI_INT32, TUTTI_SUM, comm, &config,
                               &request),
              TUTTI_OK);
    sleep_ms(500);
    ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_iallreduce(addends(), out.get(), count, TUTTI_INT32, slow.op(), comm, &config,
                               &request),
              TUTTI_OK);
    const auto begin = Clock::now();
    EXPECT_EQ(tutti_wait(&request), TUTTI_TIMEOUT) << sentence(comm);
    EXPECT_LT(seconds_since(begin), 5);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Limits, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
