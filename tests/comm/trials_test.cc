// Calls that can go several ways with the same bits try them while a program runs. Whatever way a
// call goes, among calls of other collectives and lengths, its result is that of the rank order.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"
#include "tutti/tutti.h"

namespace {

using tutti::testing::first_difference;
using tutti::testing::on_comm;
using tutti::testing::sentence;

constexpr size_t kib = 1 << 10;

// Sums of these round, so that another order has other bits.
TUTTI_INLINED inline float value(uint32_t rank, uint32_t call, size_t i) {
  const uint32_t mixed = (rank * 0x9e3779b9u + call * 0x85ebca6bu + uint32_t(i)) * 0xc2b2ae35u;
  return float(int32_t(mixed ^ mixed >> 15)) * 0x1p-20f;
}

class Caller {
 public:
  Caller(int rank, int nranks, tutti_comm comm)
      : rank_(uint32_t(rank)), nranks_(uint32_t(nranks)), comm_(comm) {}

  void allreduce(size_t bytes, bool mean, bool in_place) {
    const size_t count = bytes / sizeof(float);
    start(count);
    const void* const input = in_place ? TUTTI_IN_PLACE : static_cast<const void*>(in_.data());
    std::vector<float>& result = in_place ? in_ : out_;
    ASSERT_EQ(tutti_allreduce(input, result.data(), count, TUTTI_FLOAT32,
                              mean ? TUTTI_AVG : TUTTI_SUM, comm_),
              TUTTI_OK)
        << sentence(comm_);
    check(result, count, mean);
  }
  // Two at once, of one class of lengths, waited for in the other order.
  void two_allreduces(size_t bytes) {
    const size_t count = bytes / sizeof(float);
    std::array<std::vector<float>, 2> in, out;
    std::array<tutti_request, 2> requests{};
    const uint32_t first = calls_ + 1;
    for (size_t k = 0; k < 2; ++k) {
      start(count);
      in[k] = in_;
      out[k] = out_;
      ASSERT_EQ(tutti_iallreduce(in[k].data(), out[k].data(), count, TUTTI_FLOAT32, TUTTI_SUM,
                                 comm_, nullptr, &requests[k]),
                TUTTI_OK);
    }
    for (const size_t k : {1, 0}) {
      ASSERT_EQ(tutti_wait(&requests[k]), TUTTI_OK) << sentence(comm_);
      calls_ = first + uint32_t(k);
      check(out[k], count, false);
    }
    calls_ = first + 1;
  }
  void allgather(size_t bytes) {
    const size_t count = bytes / sizeof(float);
    start(count);
    out_.assign(count * nranks_, 0);
    ASSERT_EQ(tutti_allgather(in_.data(), out_.data(), count, TUTTI_FLOAT32, comm_), TUTTI_OK)
        << sentence(comm_);
    for (uint32_t r = 0; r < nranks_; ++r) {
      const uint32_t call = calls_;
      ASSERT_EQ(first_difference(out_.data() + r * count, count,
                                 [=](size_t i) TUTTI_INLINED { return value(r, call, i); }),
                count)
          << "allgather, call " << call;
    }
  }
  void broadcast(size_t bytes) {
    const size_t count = bytes / sizeof(float);
    start(count);
    const uint32_t root = calls_ % nranks_, call = calls_;
    ASSERT_EQ(tutti_broadcast(in_.data(), count, TUTTI_FLOAT32, int(root), comm_), TUTTI_OK)
        << sentence(comm_);
    ASSERT_EQ(first_difference(in_.data(), count,
                               [=](size_t i) TUTTI_INLINED { return value(root, call, i); }),
              count)
        << "broadcast, call " << call;
  }
  void reduce_scatter(size_t bytes) {
    const size_t count = bytes / sizeof(float) / nranks_;
    start(count * nranks_);
    ASSERT_EQ(
        tutti_reduce_scatter_block(in_.data(), out_.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm_),
        TUTTI_OK)
        << sentence(comm_);
    out_.resize(count);
    check(out_, count, false, rank_ * count);
  }

 private:
  void start(size_t count) {
    const uint32_t call = ++calls_, own = rank_;
    in_.resize(count);
    out_.assign(count, 0);
    tutti::testing::fill(in_.data(), count,
                         [=](size_t i) TUTTI_INLINED { return value(own, call, i); });
  }
  void check(const std::vector<float>& result, size_t count, bool mean, size_t from = 0) {
    const uint32_t call = calls_, nranks = nranks_;
    const auto expected = [=](size_t i) TUTTI_INLINED {
      float total = value(0, call, from + i);
      for (uint32_t r = 1; r < nranks; ++r) total += value(r, call, from + i);
      return mean ? total / float(nranks) : total;
    };
    const size_t wrong = first_difference(result.data(), count, expected);
    ASSERT_EQ(wrong, count) << "element " << wrong << " is " << result[wrong] << ", not "
                            << expected(wrong) << ": call " << call << " on rank " << rank_;
  }

  uint32_t rank_, nranks_, calls_ = 0;
  tutti_comm comm_;
  std::vector<float> in_, out_;
};

tutti_explanation explain(tutti_comm comm, size_t bytes) {
  tutti_explanation explanation{};
  explanation.size = sizeof(explanation);
  EXPECT_EQ(tutti_allreduce_explain(bytes / sizeof(float), TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr,
                                    &explanation),
            TUTTI_OK);
  return explanation;
}

// Lengths on both sides of where there is only one way, and of where single copy begins.
constexpr size_t lengths[] = {1 * kib,  2 * kib + 4, 9 * kib,        31 * kib,
                              40 * kib, 70 * kib,    300 * kib + 12, 1100 * kib};

// Over sockets, level layout folds sums of more than two ranks from the left, which several
// algorithms do; what level fast does depends on how many cores the ranks have.
tutti_level level_over(const std::string& transports, int nranks) {
  return transports == "tcp" && nranks > 2 ? TUTTI_LEVEL_LAYOUT : TUTTI_LEVEL_DEFAULT;
}

TEST(Trials, EveryCallIsRightWhicheverWayItGoes) {
  for (const int nranks : {2, 3, 4}) {
    for (const char* const transports : {"shm", "inproc", "tcp"}) {
      if (nranks == 4 && std::string(transports) == "tcp") continue;  // nothing new, and slow
      on_comm(
          nranks, transports,
          [&](int rank, tutti_comm comm) {
            Caller caller(rank, nranks, comm);
            uint32_t random = 7;
            const auto draw = [&](uint32_t below) {
              random = random * 1'664'525u + 1'013'904'223u;
              return (random >> 8) % below;
            };
            // All ways of a class are tried within its first 40 calls.
            for (int call = 0; call < 700; ++call) {
              const size_t bytes = lengths[draw(call % 8 == 0 ? 8 : 6)];
              switch (draw(8)) {
                case 0:
                  caller.allgather(bytes);
                  break;
                case 1:
                  caller.broadcast(bytes);
                  break;
                case 2:
                  caller.reduce_scatter(bytes);
                  break;
                case 3:
                  caller.two_allreduces(bytes);
                  break;
                default:
                  caller.allreduce(bytes, draw(4) == 0, draw(4) == 0);
              }
              if (::testing::Test::HasFatalFailure()) return;
            }
          },
          level_over(transports, nranks));
    }
  }
}

TEST(Trials, AllRanksSettleOnOneWayAndExplainIt) {
  // Over sockets more schedules may have the same bits than a trial has room for.
  const struct {
    int nranks;
    const char* transport;
    size_t bytes;
  } cases[] = {{2, "shm", 70 * kib},
               {3, "shm", 70 * kib},
               {2, "tcp", 4},
               {3, "tcp", 4},
               {3, "tcp", 70 * kib}};
  for (const auto& [nranks, transport, bytes] : cases) {
    SCOPED_TRACE(std::string(transport) + ", " + std::to_string(bytes) + " B");
    std::vector<std::string> settled(size_t(nranks), "none");
    on_comm(
        nranks, transport,
        [&, nranks = nranks, bytes = bytes](int rank, tutti_comm comm) {
          const tutti_explanation before = explain(comm, bytes);
          EXPECT_EQ(before.measured_us, 0) << "nothing was tried";
          EXPECT_STRNE(before.way, "") << "there are several";
          Caller caller(rank, nranks, comm);
          for (int call = 0; call < 60; ++call) caller.allreduce(bytes, false, false);
          const tutti_explanation after = explain(comm, bytes);
          EXPECT_GT(after.measured_us, 0);
          EXPECT_GT(after.runner_up_measured_us, 0);
          EXPECT_STRNE(after.way, "");
          settled[size_t(rank)] = std::string(after.algorithm) + ", " + after.way;
        },
        level_over(transport, nranks));
    for (const std::string& each : settled) EXPECT_EQ(each, settled[0]) << transport;
  }
}

// Pre-multiplied sums are made anew for each call, with numbers that differ from rank to rank.
TEST(Trials, NewOperatorsOfOneKindAreOneClass) {
  on_comm(2, "shm", [&](int rank, tutti_comm comm) {
    const size_t count = 70 * kib / sizeof(float);
    const std::vector<float> in(count, 1);
    std::vector<float> out(count);
    const float half = 0.5f;
    const auto make = [&] {
      tutti_op op = TUTTI_SUM;
      EXPECT_EQ(tutti_op_create_premul_sum(comm, &half, TUTTI_FLOAT32, &op), TUTTI_OK);
      return op;
    };
    const tutti_op kept = rank == 0 ? make() : TUTTI_SUM;
    for (int call = 0; call < 60; ++call) {
      const tutti_op op = make();
      ASSERT_EQ(tutti_allreduce(in.data(), out.data(), count, TUTTI_FLOAT32, op, comm), TUTTI_OK);
      ASSERT_EQ(out[call], 1);
      ASSERT_EQ(tutti_op_free(op), TUTTI_OK);
    }
    const tutti_op last = make();
    tutti_explanation explanation{};
    explanation.size = sizeof(explanation);
    ASSERT_EQ(tutti_allreduce_explain(count, TUTTI_FLOAT32, last, comm, nullptr, &explanation),
              TUTTI_OK);
    EXPECT_GT(explanation.measured_us, 0);
    ASSERT_EQ(tutti_op_free(last), TUTTI_OK);
    if (rank == 0) ASSERT_EQ(tutti_op_free(kept), TUTTI_OK);
  });
}

TEST(Trials, AnAlgorithmThatIsForcedStays) {
  on_comm(2, "shm", [&](int, tutti_comm comm) {
    std::vector<float> in(70 * kib / sizeof(float), 1), out(in.size());
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "two-shot";
    for (int call = 0; call < 60; ++call) {
      ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), in.size(), TUTTI_FLOAT32, TUTTI_SUM,
                                     comm, &config),
                TUTTI_OK);
    }
    tutti_explanation explanation{};
    explanation.size = sizeof(explanation);
    ASSERT_EQ(
        tutti_allreduce_explain(in.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, &config, &explanation),
        TUTTI_OK);
    EXPECT_STREQ(explanation.algorithm, "two-shot");
  });
}

}  // namespace
