// Real processes, really killed: what the survivors are told, and how soon.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/processes.h"
#include "tests/support/with_ucx.h"

namespace {

using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::Report;
using tutti::testing::report_of;

// Runs `body` on every rank; it returns the rank's last status.
std::vector<Child> start(int nranks, const char* transport,
                         const std::function<tutti_status(int, tutti_comm)>& body) {
  return tutti::testing::start(nranks, transport, [&](int rank, tutti_comm comm) {
    return report_of(body(rank, comm), comm);
  });
}

tutti_status reduce_forever(tutti_comm comm, size_t count, const char* algorithm) {
  std::vector<float> in(count, 1), out(count);
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = algorithm;
  for (;;) {
    const tutti_status status =
        tutti_allreduce_with(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, &config);
    if (status != TUTTI_OK) return status;
  }
}

void kill_rank_2_and_expect_it_named(const std::vector<Child>& children) {
  usleep(300'000);
  tutti::testing::kill_and_expect_it_named(children, 2, 1'000'000'000);
}

class KilledRank : public ::testing::TestWithParam<const char*> {};

TEST_P(KilledRank, IsNamedToEverySurvivorWithinASecond) {
  for (const char* algorithm : {"auto", "ring", "master-worker", "tree"}) {
    for (const size_t count : {size_t{1}, size_t{300'000}}) {
      SCOPED_TRACE(std::string(algorithm) + ", " + std::to_string(count) + " elements");
      const auto children = start(4, GetParam(), [&](int, tutti_comm comm) {
        return reduce_forever(comm, count, algorithm);
      });
      kill_rank_2_and_expect_it_named(children);
    }
  }
}

// Vectors that peers read and write directly: the survivors are told as soon, and their memory is
// still theirs.
TEST_P(KilledRank, IsNamedWhereMemoryIsSymmetric) {
  const auto children = start(4, GetParam(), [](int, tutti_comm comm) {
    constexpr size_t count = 300'000;
    void* memory = nullptr;
    tutti_status status = tutti_mem_alloc(comm, 2 * count * sizeof(float), &memory);
    auto* in = static_cast<float*>(memory);
    while (status == TUTTI_OK) {
      status = tutti_allreduce(in, in + count, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
    }
    for (size_t i = 0; i < 2 * count; ++i) in[i] = 1;
    return tutti_mem_free(comm, memory) == TUTTI_OK ? status : TUTTI_INTERNAL;
  });
  kill_rank_2_and_expect_it_named(children);
}

TEST_P(KilledRank, EndsARankThatOnlyReceives) {
  const auto children = start(2, GetParam(), [&](int rank, tutti_comm comm) {
    if (rank == 1) {
      pause();
      return TUTTI_OK;
    }
    float value = 0;
    return tutti_recv(&value, 1, TUTTI_FLOAT32, 1, 0, comm);
  });
  usleep(300'000);
  tutti::testing::kill_and_expect_it_named(children, 1, 1'000'000'000);
}

// Whoever else lives.
TEST_P(KilledRank, EndsReceivesFromAnyRank) {
  const auto children = start(4, GetParam(), [&](int rank, tutti_comm comm) {
    if (rank == 2) {
      pause();
      return TUTTI_OK;
    }
    float value = 0;
    int source = -1;
    tutti_request request = nullptr;
    const tutti_status begun =
        tutti_irecv_any(&value, 1, TUTTI_FLOAT32, 0, &source, comm, nullptr, &request);
    return begun == TUTTI_OK ? tutti_wait(&request) : begun;
  });
  kill_rank_2_and_expect_it_named(children);
}

// Also to a rank that waits for another one, which waits for it.
void expect_a_stopped_rank_to_be_named(const char* transport, const char* algorithm) {
  const auto children = start(4, transport, [&](int rank, tutti_comm comm) {
    if (tutti_barrier(comm) != TUTTI_OK) return TUTTI_INTERNAL;
    if (rank == 1) {
      pause();  // alive, but never calls
      return TUTTI_OK;
    }
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 1000;
    config.algorithm = algorithm;
    float in = 1, out = 0;
    return tutti_allreduce_with(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &config);
  });
  const uint64_t start_ns = tutti::now_ns();
  for (const int rank : {0, 2, 3}) {
    Report report;
    ASSERT_TRUE(finish(children[size_t(rank)], &report));
    EXPECT_EQ(report.status, TUTTI_TIMEOUT) << report.text;
    EXPECT_NE(std::string(report.text).find("rank 1"), std::string::npos) << report.text;
    EXPECT_EQ(report.rank, 1) << report.text;
    EXPECT_EQ(report.call, 2u);
    EXPECT_LT(report.ended_ns - start_ns, 5'000'000'000u);
  }
  kill(children[1].pid, SIGKILL);
  Report report;
  finish(children[1], &report);
}

TEST_P(KilledRank, AStoppedRankEndsTheCallAtItsDeadlineAndIsNamed) {
  for (const char* const algorithm : {"auto", "master-worker", "ring"}) {
    SCOPED_TRACE(algorithm);
    expect_a_stopped_rank_to_be_named(GetParam(), algorithm);
  }
}

// Also where it had said for whom it waits, before it was stopped.
TEST_P(KilledRank, OneThatASignalHasStoppedIsSaidToBe) {
  for (const char* const algorithm : {"auto", "ring"}) {
    SCOPED_TRACE(algorithm);
    const auto children = start(4, GetParam(), [&](int, tutti_comm comm) {
      std::vector<float> in(300'000, 1), out(in.size());
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.timeout_ms = 1500;
      config.algorithm = algorithm;
      tutti_status status = TUTTI_OK;
      while (status == TUTTI_OK)
        status = tutti_allreduce_with(in.data(), out.data(), in.size(), TUTTI_FLOAT32, TUTTI_SUM,
                                      comm, &config);
      return status;
    });
    usleep(300'000);
    kill(children[1].pid, SIGSTOP);
    const std::string stopped = "its process, " + std::to_string(children[1].pid) + ", is stopped";
    for (const int rank : {0, 2, 3}) {
      Report report;
      ASSERT_TRUE(finish(children[size_t(rank)], &report));
      EXPECT_EQ(report.status, TUTTI_TIMEOUT) << report.text;
      EXPECT_EQ(report.rank, 1) << report.text;
      EXPECT_NE(std::string(report.text).find(stopped), std::string::npos) << report.text;
    }
    kill(children[1].pid, SIGKILL);
    Report report;
    finish(children[1], &report);
  }
}

// What has come by the time that a stopped rank goes on ends its call, though its deadline is over.
TEST_P(KilledRank, OneThatWasStoppedBeyondItsDeadlineGetsWhatHasCome) {
  for (const bool message : {true, false}) {
    SCOPED_TRACE(message ? "a message" : "an allreduce");
    const tutti::testing::Meeting called, done;
    const auto children = start(2, GetParam(), [&](int rank, tutti_comm comm) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      if (rank == 0) {
        config.timeout_ms = 800;
        called.arrive();
      } else {
        called.wait_for(1);
        usleep(400'000);
      }
      float in = 1, out = 0;
      tutti_status status = TUTTI_OK;
      if (!message) {
        status = tutti_allreduce_with(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &config);
      } else if (rank == 0) {
        status = tutti_recv_with(&out, 1, TUTTI_FLOAT32, 1, 0, comm, &config);
      } else {
        status = tutti_send(&in, 1, TUTTI_FLOAT32, 0, 0, comm);
      }
      if (rank == 1) {
        done.arrive();
        usleep(1'000'000);  // until the other one has gone on
      }
      return status;
    });
    called.wait_for(1);
    usleep(200'000);
    kill(children[0].pid, SIGSTOP);
    usleep(800'000);
    done.wait_for(1);
    kill(children[0].pid, SIGCONT);
    for (const Child& child : children) {
      Report report;
      ASSERT_TRUE(finish(child, &report));
      EXPECT_EQ(report.status, TUTTI_OK) << report.text;
    }
  }
}

TEST_P(KilledRank, EveryRankLearnsOfAMismatchAndOfBothSides) {
  struct Case {
    const char* what;
    std::function<tutti_status(int, tutti_comm)> call;
    std::string one, other;
  };
  static float in[64], out[64];
  const auto reduce = [](tutti_comm comm, size_t count, tutti_dtype dtype, tutti_op op,
                         const char* algorithm) {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = algorithm;
    config.timeout_ms = 5000;
    return tutti_allreduce_with(in, out, count, dtype, op, comm, &config);
  };
  // Rank 1 has another count, and heap memory if `heap`.
  const auto reduce_symmetric = [](int rank, tutti_comm comm, bool heap) {
    constexpr size_t count = 200'000;
    void* memory = nullptr;
    // The others may have found out before this rank has left the allocation.
    if (const tutti_status made = tutti_mem_alloc(comm, 2 * count * sizeof(float), &memory);
        made != TUTTI_OK) {
      return made;
    }
    std::vector<float> own(heap && rank == 1 ? 2 * count : 0);
    float* from = own.empty() ? static_cast<float*>(memory) : own.data();
    return tutti_allreduce(from, from + count, rank == 1 ? count / 2 : count, TUTTI_FLOAT32,
                           TUTTI_SUM, comm);
  };
  const Case cases[] = {
      {"count, symmetric memory",
       [&](int r, tutti_comm c) { return reduce_symmetric(r, c, false); }, "100000", "200000"},
      {"count, symmetric memory but for one rank",
       [&](int r, tutti_comm c) { return reduce_symmetric(r, c, true); }, "100000", "200000"},
      {"count",
       [&](int r, tutti_comm c) {
         return reduce(c, r == 1 ? 7 : 9, TUTTI_FLOAT32, TUTTI_SUM, nullptr);
       },
       "7", "9"},
      {"count, small against large",
       [&](int r, tutti_comm c) {
         static std::vector<float> big(1 << 20), sum(1 << 20);
         return r == 1 ? tutti_allreduce(big.data(), sum.data(), big.size(), TUTTI_FLOAT32,
                                         TUTTI_SUM, c)
                       : reduce(c, 9, TUTTI_FLOAT32, TUTTI_SUM, nullptr);
       },
       "1048576", "9"},
      {"zero count",
       [&](int r, tutti_comm c) {
         const tutti_status first = reduce(c, r == 1 ? 0 : 9, TUTTI_FLOAT32, TUTTI_SUM, nullptr);
         return first != TUTTI_OK ? first : reduce(c, 9, TUTTI_FLOAT32, TUTTI_SUM, nullptr);
       },
       "", "9"},
      {"type",
       [&](int r, tutti_comm c) {
         return reduce(c, 8, r == 1 ? TUTTI_INT32 : TUTTI_FLOAT32, TUTTI_SUM, nullptr);
       },
       "int32", "float32"},
      {"operator",
       [&](int r, tutti_comm c) {
         return reduce(c, 8, TUTTI_FLOAT32, r == 1 ? TUTTI_MAX : TUTTI_SUM, nullptr);
       },
       "max", "sum"},
      {"algorithm",
       [&](int r, tutti_comm c) {
         return reduce(c, 8, TUTTI_FLOAT32, TUTTI_SUM, r == 1 ? "ring" : "tree");
       },
       "ring", "tree"},
      {"root",
       [&](int r, tutti_comm c) {
         tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
         config.timeout_ms = 5000;
         return tutti_broadcast_with(out, 8, TUTTI_FLOAT32, r == 1 ? 1 : 0, c, &config);
       },
       "from rank 1", "from rank 0"},
      {"none, unheard",
       [&](int r, tutti_comm c) {
         tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
         config.timeout_ms = 5000;
         const size_t count = r == 1 ? 0 : 8;
         const tutti_status status = tutti_broadcast_with(out, count, TUTTI_FLOAT32, 0, c, &config);
         if (status != TUTTI_OK) return status;
         return tutti_broadcast_with(out, 8, TUTTI_FLOAT32, 1, c, &config);
       },
       "rank 1", "broadcast of 8"},
      {"collective",
       [&](int r, tutti_comm c) {
         return r == 1 ? tutti_barrier(c) : reduce(c, 8, TUTTI_FLOAT32, TUTTI_SUM, nullptr);
       },
       "barrier", "allreduce"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const uint64_t start_ns = tutti::now_ns();
    const auto children = start(3, GetParam(), [&](int rank, tutti_comm comm) {
      const tutti_status status = c.call(rank, comm);
      // A rank that was through before the others found out learns of it in its next call.
      return status != TUTTI_OK ? status : tutti_barrier(comm);
    });
    for (const Child& child : children) {
      Report report;
      ASSERT_TRUE(finish(child, &report));
      EXPECT_EQ(report.status, TUTTI_MISMATCH) << report.text;
      const std::string text = report.text;
      EXPECT_NE(text.find(c.one), std::string::npos) << text;
      EXPECT_NE(text.find(c.other), std::string::npos) << text;
      EXPECT_LT(report.ended_ns - start_ns, 4'000'000'000u) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, KilledRank,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
