// Collectives that go in one hop where all ranks share memory: the same bits as the schedules that
// they implement, ranks that run ahead of others, averages and logical operators of scans.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

struct Form {
  const char* name;
  const char* algorithm;
};

// Values whose sums round.
template <class T>
std::vector<T> values(int rank, size_t count) {
  std::vector<T> all(count);
  uint32_t state = uint32_t(rank) * 2654435761u + 12345u;
  for (T& value : all) {
    state = state * 1664525u + 1013904223u;
    if constexpr (sizeof(T) == 2) {
      value = T(0x3800u | (state >> 20 & 0x7ffu));  // a float16 between 0.5 and 2
    } else {
      value = T(state >> 8) / T(3'000'017);
    }
  }
  return all;
}

template <class T>
std::vector<T> reduce_with(const Form& form, int rank, int nranks, size_t count, tutti_dtype dtype,
                           bool unfused, tutti_comm comm) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = form.algorithm;
  config.flags = unfused ? TUTTI_CALL_UNFUSED : 0;
  const std::string name = form.name;
  const bool blocks = name == "reduce_scatter";
  const std::vector<T> in = values<T>(rank, blocks ? count * size_t(nranks) : count);
  std::vector<T> out(count);
  tutti_status status = TUTTI_OK;
  if (name == "reduce") {
    status = tutti_reduce_with(in.data(), out.data(), count, dtype, TUTTI_SUM, nranks - 1, comm,
                               &config);
  } else if (blocks) {
    status = tutti_reduce_scatter_block_with(in.data(), out.data(), count, dtype, TUTTI_SUM, comm,
                                             &config);
  } else if (name == "scan") {
    status = tutti_scan_with(in.data(), out.data(), count, dtype, TUTTI_SUM, comm, &config);
  } else {
    status = tutti_exscan_with(in.data(), out.data(), count, dtype, TUTTI_SUM, comm, &config);
  }
  EXPECT_EQ(status, TUTTI_OK) << sentence(comm);
  return out;
}

template <class T>
void compare_bits(int nranks, tutti_dtype dtype) {
  on_comm(nranks, "shm", [&](int rank, tutti_comm comm) {
    for (const Form& form : {Form{"reduce", "flat"}, Form{"reduce_scatter", "direct"},
                             Form{"scan", "direct"}, Form{"exscan", "direct"}}) {
      for (const size_t count : {size_t{1}, size_t{7}, size_t{37}, size_t{333}, size_t{70'001}}) {
        const auto fused = reduce_with<T>(form, rank, nranks, count, dtype, false, comm);
        const auto stepped = reduce_with<T>(form, rank, nranks, count, dtype, true, comm);
        EXPECT_EQ(std::memcmp(fused.data(), stepped.data(), count * sizeof(T)), 0)
            << form.name << " of " << count << " on " << nranks;
      }
    }
  });
}

TEST(OneHop, GivesTheBitsOfItsSchedule) {
  for (const int nranks : {2, 3, 5, 8}) {
    compare_bits<float>(nranks, TUTTI_FLOAT32);
    compare_bits<double>(nranks, TUTTI_FLOAT64);
    compare_bits<uint16_t>(nranks, TUTTI_FLOAT16);
  }
}

TEST(OneHop, ARankMayRunAheadAndTheLateOneStillGetsEveryCall) {
  for (const size_t count : {size_t{2}, size_t{50}, size_t{50'000}}) {
    on_comm(3, "shm", [&](int rank, tutti_comm comm) {
      constexpr int calls = 100;
      for (int call = 0; call < calls; ++call) {
        if (rank == 2 && call % 25 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        std::vector<int32_t> buffer(count, rank == 0 ? call : -1);
        ASSERT_EQ(tutti_broadcast(buffer.data(), count, TUTTI_INT32, 0, comm), TUTTI_OK)
            << sentence(comm);
        ASSERT_EQ(buffer, std::vector<int32_t>(count, call));
        // Now and then another root, and calls in which some have no part.
        std::vector<int32_t> all(rank == call % 3 ? 3 * count : 0);
        buffer.assign(count, rank + call);
        ASSERT_EQ(tutti_gather(buffer.data(), all.data(), count, TUTTI_INT32, call % 3, comm),
                  TUTTI_OK)
            << sentence(comm);
        if (rank == call % 3) {
          for (int r = 0; r < 3; ++r) ASSERT_EQ(all[size_t(r) * count + count - 1], r + call);
        }
      }
    });
  }
}

TEST(Scans, AverageAndGiveZeroOrOneFromTheFirstRankOn) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (const int nranks : {1, 2, 4}) {
      on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
        const float mine = float(rank * rank);
        float mean = -1, before = -1;
        ASSERT_EQ(tutti_scan(&mine, &mean, 1, TUTTI_FLOAT32, TUTTI_AVG, comm), TUTTI_OK);
        ASSERT_EQ(tutti_exscan(&mine, &before, 1, TUTTI_FLOAT32, TUTTI_AVG, comm), TUTTI_OK);
        float sum = 0;
        for (int r = 0; r < rank; ++r) sum += float(r * r);
        EXPECT_EQ(before, rank == 0 ? -1 : sum / float(rank));
        EXPECT_EQ(mean, (sum + mine) / float(rank + 1));

        const uint8_t seven = 7;
        uint8_t all = 9, earlier = 9;
        ASSERT_EQ(tutti_scan(&seven, &all, 1, TUTTI_UINT8, TUTTI_LAND, comm), TUTTI_OK);
        ASSERT_EQ(tutti_exscan(&seven, &earlier, 1, TUTTI_UINT8, TUTTI_LAND, comm), TUTTI_OK);
        EXPECT_EQ(all, 1);
        EXPECT_EQ(earlier, rank == 0 ? 9 : 1);
      });
    }
  }
}

TEST(ReduceScatter, AveragesItsBlock) {
  for (const char* transport : {"shm", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      const std::vector<double> in = {1.0 * rank, 2.0 * rank, 3.0 * rank};
      double out = 0;
      ASSERT_EQ(tutti_reduce_scatter_block(in.data(), &out, 1, TUTTI_FLOAT64, TUTTI_AVG, comm),
                TUTTI_OK);
      EXPECT_EQ(out, rank + 1.0);
      const std::vector<size_t> lengths = {1, 1, 1};
      ASSERT_EQ(
          tutti_reduce_scatter(in.data(), &out, lengths.data(), TUTTI_FLOAT64, TUTTI_AVG, comm),
          TUTTI_OK);
      EXPECT_EQ(out, rank + 1.0);
    });
  }
}

}  // namespace
