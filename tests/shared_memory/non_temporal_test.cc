// Slices in shared memory that are written with non-temporal stores, or through the caches
// (TUTTI_PAST_CACHES): every collective whose slices lie there gives the bits of its schedule,
// which uses other memory.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"

namespace {

using tutti::testing::first_difference;
using tutti::testing::on_comm;
using tutti::testing::sentence;

class PastCaches : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    setenv("TUTTI_PAST_CACHES", GetParam(), 1);
    setenv("TUTTI_SINGLE_COPY", "never", 1);
  }
  void TearDown() override {
    unsetenv("TUTTI_PAST_CACHES");
    unsetenv("TUTTI_SINGLE_COPY");
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PastCaches, ::testing::Values("always", "never"));

// Sums of these round.
std::vector<float> values(int rank, size_t count, size_t turn) {
  std::vector<float> all(count);
  tutti::testing::fill(all.data(), count, [=](size_t i) TUTTI_INLINED {
    return 1.0f / float(1 + (i * 7 + size_t(rank) * 31 + turn * 131) % 1009);
  });
  return all;
}

// The outputs of all collectives, one after the other; blocks of `count` elements where they have
// blocks.
std::vector<float> results(int rank, size_t n, size_t count, size_t turn, bool unfused,
                           tutti_comm comm) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.flags = unfused ? TUTTI_CALL_UNFUSED : 0;
  const int root = int(turn % n);
  std::vector<float> all;
  const auto expect_ok = [&](tutti_status status) {
    EXPECT_EQ(status, TUTTI_OK) << sentence(comm);
  };
  const auto keep = [&](const std::vector<float>& out) {
    all.insert(all.end(), out.begin(), out.end());
  };
  std::vector<float> in = values(rank, n * count, turn), out(n * count, -1);
  const auto call = [&](const char* algorithm, auto&& make, auto&&... arguments) {
    config.algorithm = algorithm;
    out.assign(n * count, -1);
    expect_ok(make(arguments..., comm, &config));
    keep(out);
  };
  constexpr tutti_dtype dtype = TUTTI_FLOAT32;
  call("flat", tutti_reduce_with, in.data(), out.data(), count, dtype, TUTTI_SUM, root);
  call("direct", tutti_scan_with, in.data(), out.data(), count, dtype, TUTTI_SUM);
  call("direct", tutti_reduce_scatter_block_with, in.data(), out.data(), count, dtype, TUTTI_SUM);
  call("direct", tutti_allgather_with, in.data(), out.data(), count, dtype);
  call("direct", tutti_alltoall_with, in.data(), out.data(), count, dtype);
  call("flat", tutti_gather_with, in.data(), out.data(), count, dtype, root);
  call("flat", tutti_scatter_with, in.data(), out.data(), count, dtype, root);
  call("two-shot", tutti_allreduce_with, in.data(), out.data(), count, dtype, TUTTI_SUM);
  call("two-shot", tutti_allreduce_with, in.data(), out.data(), count, dtype, TUTTI_AVG);
  // In place, and long.
  config.algorithm = "two-shot";
  expect_ok(
      tutti_allreduce_with(TUTTI_IN_PLACE, in.data(), n * count, dtype, TUTTI_SUM, comm, &config));
  keep(in);
  config.algorithm = "flat";
  in = values(rank, n * count, turn);
  expect_ok(tutti_broadcast_with(in.data(), n * count, dtype, root, comm, &config));
  keep(in);
  return all;
}

TEST_P(PastCaches, GivesTheBitsOfTheSchedules) {
  for (const size_t n : {size_t{2}, size_t{3}, size_t{5}}) {
    on_comm(int(n), "shm", [&](int rank, tutti_comm comm) {
      size_t turn = 0;
      // Slices in lines, of odd lengths, and so long that looks at the distance fall among them.
      for (const size_t count : {size_t{5}, size_t{1'111}, size_t{40'003}, size_t{70'016}}) {
        const std::vector<float> fused = results(rank, n, count, ++turn, false, comm);
        const std::vector<float> plain = results(rank, n, count, turn, true, comm);
        ASSERT_EQ(fused.size(), plain.size());
        const size_t wrong =
            first_difference(fused.data(), fused.size(),
                             [from = plain.data()](size_t i) TUTTI_INLINED { return from[i]; });
        EXPECT_EQ(wrong, fused.size()) << count << " on " << n;
      }
    });
  }
}

// What is longer than a rank's share of the cache goes past it on the reader's side, too.
TEST_P(PastCaches, LongOutputsArrive) {
  on_comm(2, "shm", [](int rank, tutti_comm comm) {
    const size_t count = (9 << 20) / sizeof(float) + 13;
    std::vector<float> buffer = values(rank, count, 1);
    ASSERT_EQ(tutti_broadcast(buffer.data(), count, TUTTI_FLOAT32, 1, comm), TUTTI_OK);
    const std::vector<float> one = values(0, count, 1), other = values(1, count, 1);
    EXPECT_EQ(std::memcmp(buffer.data(), other.data(), count * sizeof(float)), 0);

    buffer = values(rank, count, 1);
    const bool root = rank == 0;
    ASSERT_EQ(tutti_reduce(root ? TUTTI_IN_PLACE : buffer.data(), buffer.data(), count,
                           TUTTI_FLOAT32, TUTTI_AVG, 0, comm),
              TUTTI_OK);
    if (!root) return;
    const size_t wrong = first_difference(buffer.data(), count,
                                          [a = one.data(), b = other.data()](size_t i)
                                              TUTTI_INLINED { return (a[i] + b[i]) / 2; });
    EXPECT_EQ(wrong, count);
  });
}

}  // namespace
