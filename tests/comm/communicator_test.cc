// Communicators, broadcast, barrier, messages, explain and wrong arguments, through the C API.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sanitized;
using tutti::testing::sentence;

class Comm : public ::testing::TestWithParam<const char*> {};

TEST_P(Comm, BroadcastReachesAllFromEveryRoot) {
  for (const int nranks : {1, 2, 3, 6}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (int root = 0; root < nranks; ++root) {
        for (const size_t count : {0, 1, 1000, 100'003}) {
          std::vector<double> buffer(count, rank == root ? 0.0 : -1.0);
          if (rank == root) {
            for (size_t i = 0; i < count; ++i) buffer[i] = double(i) + root;
          }
          ASSERT_EQ(tutti_broadcast(buffer.data(), count, TUTTI_FLOAT64, root, comm), TUTTI_OK)
              << sentence(comm);
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(buffer[i], double(i) + root);
        }
      }
    });
  }
}

TEST_P(Comm, NobodyLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int> entered{0};
  on_comm(5, GetParam(), [&](int rank, tutti_comm comm) {
    for (int round = 1; round <= 20; ++round) {
      if (rank == round % 5) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      entered.fetch_add(1);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      ASSERT_GE(entered.load(), 5 * round);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    }
  });
}

TEST_P(Comm, MessagesArriveInOrder) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<int32_t> data(50'000);
    for (int round = 0; round < 10; ++round) {
      const int to = (rank + 1) % 3, from = (rank + 2) % 3;
      const auto fill = [&](int sender) {
        for (size_t i = 0; i < data.size(); ++i) data[i] = sender * 1000 + round + int(i);
      };
      fill(rank);
      const size_t count = round % 2 == 0 ? 5 : 1000;
      ASSERT_EQ(tutti_send(data.data(), count, TUTTI_INT32, to, round, comm), TUTTI_OK)
          << sentence(comm);
      std::vector<int32_t> got(count);
      ASSERT_EQ(tutti_recv(got.data(), count, TUTTI_INT32, from, round, comm), TUTTI_OK)
          << sentence(comm);
      fill(from);
      ASSERT_EQ(std::memcmp(got.data(), data.data(), count * 4), 0);
    }
    // A message longer than what a stream holds, against a receiver that is there.
    std::vector<int32_t> long_one(3'000'000, rank);
    if (rank == 0) {
      ASSERT_EQ(tutti_send(long_one.data(), long_one.size(), TUTTI_INT32, 1, 0, comm), TUTTI_OK);
    } else if (rank == 1) {
      ASSERT_EQ(tutti_recv(long_one.data(), long_one.size(), TUTTI_INT32, 0, 0, comm), TUTTI_OK);
      ASSERT_EQ(long_one.back(), 0);
    }
  });
}

TEST_P(Comm, AMessageOfAnotherSizeIsAMismatch) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    int32_t data[8] = {};
    if (rank == 0) {
      ASSERT_EQ(tutti_send(data, 4, TUTTI_INT32, 1, 0, comm), TUTTI_OK);
      EXPECT_EQ(tutti_barrier(comm), TUTTI_MISMATCH) << sentence(comm);
    } else {
      EXPECT_EQ(tutti_recv(data, 5, TUTTI_INT32, 0, 0, comm), TUTTI_MISMATCH) << sentence(comm);
    }
  });
}

TEST_P(Comm, SplitOrdersByKeyAndLeavesOutNegativeColors) {
  on_comm(6, GetParam(), [&](int rank, tutti_comm comm) {
    tutti_comm part = nullptr;
    const int color = rank == 5 ? -1 : rank % 2;
    ASSERT_EQ(tutti_comm_split(comm, color, -rank, &part), TUTTI_OK) << sentence(comm);
    if (rank == 5) {
      ASSERT_EQ(part, nullptr);
      return;
    }
    int size = 0, mine = -1;
    ASSERT_EQ(tutti_comm_size(part, &size), TUTTI_OK);
    ASSERT_EQ(tutti_comm_rank(part, &mine), TUTTI_OK);
    ASSERT_EQ(size, color == 0 ? 3 : 2);
    ASSERT_EQ(mine, color == 0 ? (4 - rank) / 2 : (3 - rank) / 2);
    int32_t in = 1 << rank, out = 0;
    ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, part), TUTTI_OK);
    ASSERT_EQ(out, color == 0 ? 0b10101 : 0b1010);
    tutti_comm_free(part);
  });
}

int64_t sum_of_ranks(tutti_comm comm, int rank) {
  int64_t in = int64_t{1} << rank, out = 0;
  EXPECT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm), TUTTI_OK)
      << sentence(comm);
  return out;
}

TEST_P(Comm, SplitHostPutsTheRanksOfAHostInOrderOfTheirKeys) {
  on_comm(5, GetParam(), [&](int rank, tutti_comm comm) {
    const tutti::communicator host = [&] {
      tutti_comm made = nullptr;
      EXPECT_EQ(tutti_comm_split_host(comm, rank == 3 ? -1 : 7, &made), TUTTI_OK) << sentence(comm);
      return tutti::communicator(made);
    }();
    EXPECT_EQ(host.size(), 5);
    EXPECT_EQ(host.rank(), rank == 3 ? 0 : rank < 3 ? rank + 1 : rank);
    EXPECT_EQ(sum_of_ranks(host.get(), rank), 0b11111);
  });
}

TEST_P(Comm, AGroupHasTheOrderOfItsListAndTheOthersNeedNotCall) {
  on_comm(6, GetParam(), [&](int rank, tutti_comm comm) {
    const auto group = [&](const std::vector<int>& ranks) {
      const auto place = std::find(ranks.begin(), ranks.end(), rank);
      if (place == ranks.end()) return;
      tutti_comm made = nullptr;
      ASSERT_EQ(tutti_comm_create_group(comm, ranks.data(), ranks.size(), &made), TUTTI_OK)
          << sentence(comm);
      const tutti::communicator owned(made);
      EXPECT_EQ(owned.size(), int(ranks.size()));
      EXPECT_EQ(owned.rank(), int(place - ranks.begin()));
      int64_t sum = 0;
      for (const int one : ranks) sum += int64_t{1} << one;
      EXPECT_EQ(sum_of_ranks(made, rank), sum);
    };
    group({4, 1, 3});
    group({2});
    group({5, 0});
    group({0, 3, 2, 1});
    EXPECT_EQ(sum_of_ranks(comm, rank), 0b111111);
  });
}

TEST_P(Comm, GroupsOfDifferentListsAreAMismatchThatNamesThem) {
  struct Case {
    std::vector<int> lists[3];
    const char* says;
  };
  const Case cases[] = {
      {{{0, 1, 2}, {1, 0, 2}, {0, 1, 2}}, "one of ranks "},
      {{{0, 1, 2}, {0, 1, 2}, {2, 1}}, "ranks 2, 1"},
      {{{0, 1}, {0, 1, 2}, {0, 1, 2}}, "ranks 0, 1, 2"},
  };
  for (const Case& c : cases) {
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      const std::vector<int>& list = c.lists[rank];
      tutti_comm made = nullptr;
      const auto started = std::chrono::steady_clock::now();
      EXPECT_EQ(tutti_comm_create_group(comm, list.data(), list.size(), &made), TUTTI_MISMATCH);
      EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5));
      EXPECT_NE(sentence(comm).find(c.says), std::string::npos) << sentence(comm);
      EXPECT_EQ(made, nullptr);
      EXPECT_EQ(tutti_barrier(comm), TUTTI_MISMATCH);
    });
  }
}

TEST_P(Comm, AbortEndsTheCallsOfAllRanksNowAndLater) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    float in = 1, out = 0;
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_EQ(tutti_comm_abort(comm, "user gave up"), TUTTI_OK);
    }
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_ABORTED);
      EXPECT_NE(sentence(comm).find("user gave up"), std::string::npos) << sentence(comm);
    }
  });
}

TEST_P(Comm, AWrongArgumentSaysWhatIsWrongAndHarmsNothing) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    float in[4] = {1, 2, 3, 4}, out[4] = {};
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    const auto refused = [&](tutti_status got, tutti_status wanted, const char* word) {
      EXPECT_EQ(got, wanted) << sentence(comm);
      EXPECT_NE(sentence(comm).find(word), std::string::npos) << sentence(comm);
    };
    refused(tutti_allreduce(nullptr, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_INVALID,
            "NULL");
    refused(tutti_allreduce(in, nullptr, 4, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_INVALID, "NULL");
    refused(tutti_allreduce(in, in, 4, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_INVALID, "IN_PLACE");
    refused(tutti_allreduce(in, in + 1, 2, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_INVALID,
            "overlap");
    refused(tutti_allreduce(in, out, 4, tutti_dtype(99), TUTTI_SUM, comm), TUTTI_INVALID, "99");
    refused(tutti_allreduce(in, out, 4, TUTTI_FLOAT32, tutti_op(77), comm), TUTTI_INVALID, "77");
    refused(tutti_allreduce(in, out, 4, TUTTI_FLOAT32, TUTTI_BXOR, comm), TUTTI_INVALID, "bxor");
    refused(tutti_allreduce(in, out, SIZE_MAX / 2, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_INVALID,
            "memory");
    config.algorithm = "no-such";
    refused(tutti_allreduce_with(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
            TUTTI_INVALID, "halving-doubling");
    config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = -1;
    refused(tutti_allreduce_with(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
            TUTTI_INVALID, "negative");
    config = TUTTI_CALL_CONFIG_INIT;
    config.flags = 64;
    refused(tutti_allreduce_with(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
            TUTTI_INVALID, "flags");
    config.size = 3;
    refused(tutti_barrier_with(comm, &config), TUTTI_INVALID, "size");
    refused(tutti_broadcast(out, 4, TUTTI_FLOAT32, 2, comm), TUTTI_INVALID, "root 2");
    refused(tutti_send(in, 1, TUTTI_FLOAT32, rank, 0, comm), TUTTI_INVALID, "itself");
    refused(tutti_send(in, 1, TUTTI_FLOAT32, 7, 0, comm), TUTTI_INVALID, "7");
    refused(tutti_recv(out, 1, TUTTI_FLOAT32, 1 - rank, -3, comm), TUTTI_INVALID, "tag");
    // And still everything works.
    ASSERT_EQ(tutti_allreduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_OK);
    EXPECT_EQ(out[3], 8.0f);
  });
  EXPECT_EQ(tutti_barrier(nullptr), TUTTI_INVALID);
  tutti_comm comm = nullptr;
  tutti_unique_id id{};
  EXPECT_EQ(tutti_comm_create_from_id(&id, 3, 2, nullptr, &comm), TUTTI_INVALID);
  EXPECT_NE(std::string(tutti_last_error()).find("rank 3"), std::string::npos);
  EXPECT_EQ(tutti_comm_create_from_id(&id, 0, 0, nullptr, &comm), TUTTI_INVALID);
  EXPECT_EQ(comm, nullptr);
}

TEST_P(Comm, ExplainNamesChoicePathReasonAndRunnerUp) {
  on_comm(2, GetParam(), [&](int, tutti_comm comm) {
    tutti_explanation explained{};
    explained.size = sizeof(explained);
    ASSERT_EQ(tutti_allreduce_explain(1000, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr, &explained),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_STREQ(explained.transport, GetParam());
    EXPECT_GT(std::strlen(explained.algorithm), 0u);
    EXPECT_GT(std::strlen(explained.reason), 10u);
    EXPECT_GT(explained.predicted_us, 0.0);
    EXPECT_GE(explained.runner_up_us, explained.predicted_us);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "ring";
    ASSERT_EQ(tutti_allreduce_explain(1000, TUTTI_FLOAT32, TUTTI_SUM, comm, &config, &explained),
              TUTTI_OK);
    EXPECT_STREQ(explained.algorithm, "ring");
    EXPECT_STREQ(explained.path, "schedule");
  });
}

TEST_P(Comm, TheCppWrapperThrowsTheSentence) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    tutti_comm copy = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &copy), TUTTI_OK);
    const tutti::communicator owned(copy);
    std::vector<double> in = {1.0 + rank, 5.0}, out(2);
    owned.allreduce(std::span<const double>(in), std::span(out), TUTTI_MAX);
    EXPECT_EQ(out[0], 2.0);
    owned.broadcast(std::span(out), 0);
    owned.barrier();
    try {
      owned.broadcast(std::span(out), 9);
      FAIL() << "root 9 was accepted";
    } catch (const tutti::error& e) {
      EXPECT_EQ(e.status(), TUTTI_INVALID);
      EXPECT_NE(std::string(e.what()).find("root 9"), std::string::npos);
    }
  });
}

TEST_P(Comm, AThousandCanBeMadeAndFreedWithoutGrowth) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    const auto open_files = [] {
      int count = 0;
      for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0;
      return count;
    };
    int before = 0;
    constexpr int last = sanitized ? 99 : 999;
    for (int i = 0; i <= last; ++i) {
      tutti_comm copy = nullptr;
      ASSERT_EQ(tutti_comm_dup(comm, &copy), TUTTI_OK) << sentence(comm);
      tutti_comm_free(copy);
      if (i == 10 || i == last) {
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
        if (rank == 0 && i == 10) before = open_files();
        if (rank == 0 && i == last) {
          EXPECT_LE(open_files(), before + 4);
        }
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      }
    }
  });
}

// Another effective user is what makes another host of a thread.
TEST(SplitHost, SeparatesWhatCannotShareMemory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  on_comm(4, "tcp", [](int rank, tutti_comm comm) {
    if (rank % 2 == 1) {
      ASSERT_EQ(syscall(SYS_setresuid, -1, 65534, -1), 0);  // of this thread alone
    }
    tutti_comm made = nullptr;
    ASSERT_EQ(tutti_comm_split_host(comm, -rank, &made), TUTTI_OK) << sentence(comm);
    const tutti::communicator host(made);
    EXPECT_EQ(host.size(), 2);
    EXPECT_EQ(host.rank(), rank < 2 ? 1 : 0);
    EXPECT_EQ(sum_of_ranks(made, rank), rank % 2 == 0 ? 0b0101 : 0b1010);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Comm, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// The caller's own all-gather, over threads.
TEST(Create, FromACallersAllgather) {
  auto group = std::make_shared<tutti::testing::ThreadExchangeGroup>(3);
  struct Place {
    std::shared_ptr<tutti::testing::ThreadExchangeGroup> group;
    int rank;
  };
  tutti::testing::on_threads(3, [&](int rank) {
    Place place{group, rank};
    const auto gather = [](const void* mine, void* all, size_t bytes, void* context) {
      const auto* where = static_cast<Place*>(context);
      std::vector<std::string> texts;
      const auto gathered =
          where->group->allgather(where->rank, {static_cast<const char*>(mine), bytes},
                                  tutti::deadline_after_ms(10'000), &texts);
      if (!gathered.ok()) return 1;
      for (size_t i = 0; i < texts.size(); ++i) {
        std::memcpy(static_cast<char*>(all) + i * bytes, texts[i].data(), bytes);
      }
      return 0;
    };
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_allgather(gather, &place, rank, 3, nullptr, &comm), TUTTI_OK)
        << tutti_last_error();
    int32_t in = rank, out = -1;
    ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    EXPECT_EQ(out, 3);
    tutti_comm_free(comm);
  });
}

TEST(Create, WithoutALauncherThereIsOneRank) {
  tutti_comm comm = nullptr;
  ASSERT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_OK) << tutti_last_error();
  int size = 0;
  ASSERT_EQ(tutti_comm_size(comm, &size), TUTTI_OK);
  EXPECT_EQ(size, 1);
  float in = 3, out = 0;
  ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_AVG, comm), TUTTI_OK);
  EXPECT_EQ(out, 3.0f);
  const int32_t words[3] = {0, 7, -1};
  int32_t truths[3] = {};
  ASSERT_EQ(tutti_allreduce(words, truths, 3, TUTTI_INT32, TUTTI_LXOR, comm), TUTTI_OK);
  EXPECT_EQ(truths[0], 0);
  EXPECT_EQ(truths[1], 1);
  EXPECT_EQ(truths[2], 1);
  tutti_comm_free(comm);
}

}  // namespace
