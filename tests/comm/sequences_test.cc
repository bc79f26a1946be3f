// One way after another: calls of different lengths take different ways through the memory that
// ranks share, and none may write what a slow rank still reads of the call before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"

namespace {

using tutti::testing::fill;
using tutti::testing::first_difference;
using tutti::testing::on_comm;
using tutti::testing::sentence;

constexpr size_t kib = 1 << 10;

// A sum whose first use in each call may take long.
struct SlowSum {
  bool sleeps = false;

  static void add(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
                  void* context) {
    auto& self = *static_cast<SlowSum*>(context);
    if (self.sleeps) usleep(3'000);
    self.sleeps = false;
    const auto *a = static_cast<const uint32_t*>(lower), *b = static_cast<const uint32_t*>(higher);
    auto* const to = static_cast<uint32_t*>(out);
    for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }
};

TUTTI_INLINED inline uint32_t value(uint32_t rank, uint32_t call, size_t i) {
  return rank * 1'000'003u + call * 7'919u + uint32_t(i) * 31u;
}

class Sequence {
 public:
  Sequence(int rank, int nranks, tutti_comm comm)
      : rank_(uint32_t(rank)), nranks_(uint32_t(nranks)), comm_(comm) {
    EXPECT_EQ(tutti_op_create(SlowSum::add, &sum_, 1, &op_), TUTTI_OK);
  }
  ~Sequence() { EXPECT_EQ(tutti_op_free(op_), TUTTI_OK); }

  // `late`: the rank that reads its peers' vectors late.
  void allreduce(size_t bytes, const char* algorithm, int late = -1) {
    const size_t count = bytes / sizeof(uint32_t);
    const uint32_t call = ++calls_;
    std::vector<uint32_t> in(count), out(count);
    const uint32_t own = rank_, ranks = nranks_;
    fill(in.data(), count, [=](size_t i) TUTTI_INLINED { return value(own, call, i); });
    sum_.sleeps = late == int(rank_);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = algorithm;
    ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, TUTTI_UINT32, op_, comm_, &config),
              TUTTI_OK)
        << sentence(comm_);
    const auto expected = [=](size_t i) TUTTI_INLINED {
      uint32_t sum = 0;
      for (uint32_t r = 0; r < ranks; ++r) sum += value(r, call, i);
      return sum;
    };
    const size_t wrong = first_difference(out.data(), count, expected);
    if (wrong < count)
      FAIL() << "element " << wrong << " of " << count << " is " << out[wrong] << ", not "
             << expected(wrong) << ": " << algorithm << ", call " << call << " on rank " << rank_;
  }

 private:
  uint32_t rank_, nranks_, calls_ = 0;
  tutti_comm comm_;
  SlowSum sum_;
  tutti_op op_ = {};
};

struct Way {
  const char* algorithm;
  size_t bytes;
};

// On both sides of every border between ways.
constexpr Way ways[] = {
    {"all-to-all", 8},        {"all-to-all", 56},           {"all-to-all", 60},
    {"all-to-all", 8 * kib},  {"all-to-all", 8 * kib + 4},  {"all-to-all", 40 * kib},
    {"all-to-all", 64 * kib}, {"all-to-all", 64 * kib + 4}, {"two-level", 56},
    {"two-level", 4 * kib},   {"two-level", 4 * kib + 4},   {"two-shot", 4},
    {"two-shot", 64 * kib},   {"two-shot", 500 * kib},      {"two-shot", 2048 * kib},
    {"ring", 20 * kib},
};

TEST(Sequences, AnyWayAfterAnyOtherIsRightWhileARankStillReads) {
  for (const int nranks : {2, 3, 4}) {
    on_comm(nranks, "inproc", [&](int rank, tutti_comm comm) {
      Sequence calls(rank, nranks, comm);
      int late = 0;
      for (const Way& first : ways) {
        for (const Way& second : ways) {
          SCOPED_TRACE(std::string(first.algorithm) + " of " + std::to_string(first.bytes) +
                       " bytes, then " + second.algorithm + " of " + std::to_string(second.bytes));
          late = (late + 1) % nranks;
          calls.allreduce(first.bytes, first.algorithm);
          calls.allreduce(first.bytes, first.algorithm, late);
          calls.allreduce(second.bytes, second.algorithm);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    });
  }
}

// As programs do: lengths that come in any order.
TEST(Sequences, LengthsInAnyOrderAreRight) {
  for (const int nranks : {2, 4}) {
    on_comm(nranks, "shm", [&](int rank, tutti_comm comm) {
      Sequence calls(rank, nranks, comm);
      uint32_t random = 1;
      for (int call = 0; call < 1'500; ++call) {
        random = random * 1'664'525u + 1'013'904'223u;
        const size_t longest = size_t{1} << (2 + (random >> 16) % 19);
        random = random * 1'664'525u + 1'013'904'223u;
        const size_t bytes =
            (random >> 8) % 2 == 0 ? 40 * kib : 4 + (random >> 9) % longest / 4 * 4;
        calls.allreduce(bytes, "auto");
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

// A root that runs ahead fails in a call for which there is no room; the calls before it are made.
TEST(Sequences, CallsBeforeOneThatFailsEndWell) {
  if (getenv("TUTTI_INTEGRITY") != nullptr)
    GTEST_SKIP() << "calls go through slots, of which there are fewer";
  setenv("TUTTI_SINGLE_COPY", "always", 1);
  constexpr int short_calls = 128;  // as many as there are flags for slices
  constexpr size_t longest = 1 << 20;
  std::atomic<bool> failed = false;
  on_comm(2, "shm", [&](int rank, tutti_comm comm) {
    std::vector<uint8_t> vector(longest, uint8_t(rank));
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = rank == 0 ? 300 : 20'000;
    const auto broadcast = [&](size_t bytes) {
      return tutti_broadcast_with(vector.data(), bytes, TUTTI_UINT8, 0, comm, &config);
    };
    ASSERT_EQ(broadcast(longest), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    while (rank == 1 && !failed) usleep(1000);
    for (int call = 0; call < short_calls && !::testing::Test::HasFailure(); ++call) {
      if (rank == 0) vector[0] = uint8_t(call);
      EXPECT_EQ(broadcast(8), TUTTI_OK) << "call " << call << ": " << sentence(comm);
      EXPECT_EQ(vector[0], uint8_t(call));
    }
    EXPECT_EQ(broadcast(longest), TUTTI_TIMEOUT) << sentence(comm);
    failed = true;
  });
  unsetenv("TUTTI_SINGLE_COPY");
}

}  // namespace
