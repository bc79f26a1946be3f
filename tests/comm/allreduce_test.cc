// Allreduce through the C API: every algorithm, transport and shape against exact sums, the fused
// paths against the schedules that they implement, and no allocation once a call has been made.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"

namespace {
thread_local uint64_t allocations = 0;  // of this thread
}

// Not inlined, or the compiler sees malloc() and operator delete() as a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using tutti::testing::algorithms_of;
using tutti::testing::fill;
using tutti::testing::fill_unchecked;
using tutti::testing::first_difference;
using tutti::testing::on_comm;
using tutti::testing::sanitized;
using tutti::testing::sentence;

// `algorithm` must outlive the config.
tutti_call_config forced(const char* algorithm, bool unfused = false) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = algorithm;
  config.flags = unfused ? TUTTI_CALL_UNFUSED : 0;
  return config;
}

class Allreduce : public ::testing::TestWithParam<const char*> {};

TEST_P(Allreduce, IsExactForEveryAlgorithmCountAndPlace) {
  const std::vector<std::string> names = algorithms_of("allreduce");
  ASSERT_GE(names.size(), 9u);
  for (const int nranks : {1, 2, 3, 4, 5, 7, 8}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const std::string& name : names) {
        for (const bool unfused : {false, true}) {
          const tutti_call_config config = forced(name.c_str(), unfused);
          for (const size_t count : {0, 1, 2, 3, 7, 13, 64, 1000, 20'011}) {
            std::vector<int32_t> in(count), out(count, -1);
            fill(in.data(), count,
                 [=](size_t i) TUTTI_INLINED { return int32_t(i * 3) + rank * rank; });
            std::vector<int32_t> expected(count);
            fill_unchecked(expected.data(), 0, count, [=](size_t i) TUTTI_INLINED {
              int32_t sum = 0;
              for (int r = 0; r < nranks; ++r) sum += int32_t(i * 3) + r * r;
              return sum;
            });
            ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, TUTTI_INT32, TUTTI_SUM,
                                           comm, &config),
                      TUTTI_OK)
                << name << ": " << sentence(comm);
            ASSERT_EQ(out, expected) << name << ", " << nranks << " ranks, count " << count;
            ASSERT_EQ(tutti_allreduce_with(TUTTI_IN_PLACE, in.data(), count, TUTTI_INT32, TUTTI_SUM,
                                           comm, &config),
                      TUTTI_OK);
            ASSERT_EQ(in, expected) << name << " in place, count " << count;
          }
        }
      }
    });
  }
}

TEST_P(Allreduce, LargeVectorsStreamThroughTheBoundedBuffers) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t count = 1'500'001;
    std::vector<int64_t> in(count), out(count);
    for (const std::string& name : algorithms_of("allreduce")) {
      fill(in.data(), count, [=](size_t i) TUTTI_INLINED { return int64_t(i) * (rank + 1); });
      const tutti_call_config config = forced(name.c_str());
      ASSERT_EQ(
          tutti_allreduce_with(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm, &config),
          TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(first_difference(out.data(), count,
                                 [](size_t i) TUTTI_INLINED { return int64_t(i) * 6; }),
                count)
          << name;
    }
  });
}

// Random bit patterns: every rounding, infinity and NaN that there is.
TEST_P(Allreduce, FusedPathsGiveTheBitsOfTheSchedulesTheyImplement) {
  for (const int nranks : sanitized ? std::vector{3} : std::vector{2, 3, 5, 8}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      std::mt19937_64 random(uint64_t(rank) + 1);
      for (const char* name : {"all-to-all", "two-level", "two-shot"}) {
        for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type) {
          const auto dtype = tutti_dtype(type);
          const size_t size = tutti_dtype_size(dtype);
          for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_AVG, TUTTI_MAXLOC}) {
            if (!tutti_op_supports(op, dtype)) continue;
            for (const size_t count : {1, 13, 14, 15, 1000, 9001}) {
              std::vector<uint8_t> in(count * size), fused(count * size), plain(count * size);
              for (size_t at = 0; at < in.size(); at += sizeof(uint64_t)) {
                const uint64_t bits = random();
                std::memcpy(&in[at], &bits, std::min(sizeof(bits), in.size() - at));
              }
              tutti_call_config config = forced(name);
              ASSERT_EQ(
                  tutti_allreduce_with(in.data(), fused.data(), count, dtype, op, comm, &config),
                  TUTTI_OK)
                  << sentence(comm);
              config.flags = TUTTI_CALL_UNFUSED;
              ASSERT_EQ(
                  tutti_allreduce_with(in.data(), plain.data(), count, dtype, op, comm, &config),
                  TUTTI_OK)
                  << sentence(comm);
              ASSERT_EQ(fused, plain) << name << " " << tutti_dtype_name(dtype) << " "
                                      << tutti_op_name(op) << " " << count;
            }
          }
        }
      }
    });
  }
}

TEST_P(Allreduce, AllRanksGetTheSameBits) {
  for (const int nranks : {2, 3, 6, 7}) {
    constexpr size_t count = 5003;
    for (const std::string& name : algorithms_of("allreduce")) {
      std::vector<std::vector<float>> results(static_cast<size_t>(nranks));
      on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
        std::mt19937 random(unsigned(rank) + 99);
        std::vector<float> in(count);
        for (float& x : in) x = std::ldexp(float(random()), int(random() % 60) - 40);
        results[size_t(rank)].resize(count);
        const tutti_call_config config = forced(name.c_str());
        ASSERT_EQ(tutti_allreduce_with(in.data(), results[size_t(rank)].data(), count,
                                       TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
                  TUTTI_OK);
      });
      for (int rank = 1; rank < nranks; ++rank) {
        const void *first = results[0].data(), *other = results[size_t(rank)].data();
        ASSERT_EQ(std::memcmp(first, other, count * sizeof(float)), 0)
            << name << ", rank " << rank << " of " << nranks;
      }
    }
  }
}

TEST_P(Allreduce, AllocatesNothingOnceACallLikeItWasMade) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    for (const std::string& name : algorithms_of("allreduce")) {
      for (const size_t count : {1, 1000, 200'000}) {
        std::vector<float> in(count, 1.0f), out(count);
        const tutti_call_config config = forced(name.c_str());
        for (int call = 0; call < 3; ++call) {
          ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM,
                                         comm, &config),
                    TUTTI_OK);
        }
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
        ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm,
                                       &config),
                  TUTTI_OK);
        const uint64_t before = allocations;
        for (int call = 0; call < 20; ++call) {
          tutti_allreduce_with(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm,
                               &config);
        }
        const uint64_t made = allocations - before;
        EXPECT_EQ(made, 0u) << name << ", " << count << " elements, rank " << rank;
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      }
    }
  });
}

TEST_P(Allreduce, ManyCommunicatorsAtOnceFromManyThreads) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr int copies = 3;
    std::vector<tutti_comm> comms(copies);
    for (tutti_comm& copy : comms)
      ASSERT_EQ(tutti_comm_dup(comm, &copy), TUTTI_OK) << sentence(comm);
    tutti::testing::on_threads(copies, [&](int which) {
      for (int call = 0; call < 200; ++call) {
        int64_t in = which * 1000 + call + rank, out = 0;
        ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comms[size_t(which)]),
                  TUTTI_OK);
        ASSERT_EQ(out, 2 * (which * 1000 + call) + 1);
      }
    });
    for (tutti_comm copy : comms) tutti_comm_free(copy);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Allreduce, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
