// What ranks agree on after failures, and the communicators that they go on with.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/descriptors.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"

namespace {

using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::open_descriptors;
using tutti::testing::Report;

// A report that says only what went wrong.
Report wrong(const std::string& what) {
  Report report;
  report.status = TUTTI_INTERNAL;
  snprintf(report.text, sizeof(report.text), "%s", what.c_str());
  return report;
}
Report well() {
  Report report;
  report.status = TUTTI_OK;
  return report;
}

Report wrong(const std::string& what, tutti_comm comm) {
  return wrong(what + ": " + tutti::testing::sentence(comm));
}

void expect_all_well(const std::vector<Child>& children, const std::vector<int>& killed = {}) {
  for (int rank = 0; rank < int(children.size()); ++rank) {
    Report report;
    const bool told = finish(children[size_t(rank)], &report);
    const bool dies = std::find(killed.begin(), killed.end(), rank) != killed.end();
    EXPECT_EQ(told, !dies) << "rank " << rank;
    if (!told) continue;
    EXPECT_EQ(report.status, TUTTI_OK) << "rank " << rank << ": " << report.text;
  }
}

bool sums(tutti_comm comm, float mine, float expected) {
  float sum = 0;
  return tutti_allreduce(&mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK &&
         sum == expected;
}

// Over ucx some of what a call has sent may still be in its process when the call returns
// (transports/ucx/README.md): killed right then it takes that along, and the call fails for others.
[[noreturn]] void die_after_a_call() {
  usleep(300'000);
  raise(SIGKILL);
  std::abort();
}

void reduce_until_it_fails(tutti_comm comm) {
  float one = 1, sum = 0;
  while (tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK) continue;
}

std::vector<int> failed_ranks(tutti_comm comm) {
  size_t n = 0;
  std::vector<int> ranks(64);
  if (tutti_comm_failed_ranks(comm, ranks.data(), ranks.size(), &n) != TUTTI_OK) n = 0;
  ranks.resize(n);
  return ranks;
}

size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

class Survivors : public ::testing::TestWithParam<const char*> {};

TEST_P(Survivors, GoOnInTheirOldOrderWithoutRankZero) {
  const auto children = tutti::testing::start(4, GetParam(), [](int rank, tutti_comm comm) {
    reduce_until_it_fails(comm);
    if (failed_ranks(comm) != std::vector<int>{0}) return wrong("rank 0 is not named", comm);
    tutti_comm left = nullptr;
    if (tutti_comm_shrink(comm, 0, &left) != TUTTI_OK) return wrong("no shrink", comm);
    int new_rank = -1, size = 0;
    tutti_comm_rank(left, &new_rank);
    tutti_comm_size(left, &size);
    if (new_rank != rank - 1 || size != 3) return wrong("the new ranks are wrong");
    if (!sums(left, float(rank), 6)) return wrong("the sum is wrong", left);
    if (!failed_ranks(left).empty()) return wrong("ranks have failed", left);
    // The old one may go before or after.
    return tutti_comm_free(left) == TUTTI_OK ? well() : wrong("the new one is not freed");
  });
  usleep(100'000);
  kill(children[0].pid, SIGKILL);
  expect_all_well(children, {0});
}

TEST_P(Survivors, ShrinkUntilOneIsLeft) {
  const auto children = tutti::testing::start(4, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm now = comm;
    for (int left = 3; left >= 1; --left) {
      if (rank == left) die_after_a_call();
      reduce_until_it_fails(now);
      tutti_comm next = nullptr;
      if (tutti_comm_shrink(now, 0, &next) != TUTTI_OK) return wrong("no shrink", now);
      if (now != comm) tutti_comm_free(now);
      now = next;
      int size = 0;
      tutti_comm_size(now, &size);
      if (size != left || !sums(now, 1, float(left))) return wrong("the sum is wrong", now);
    }
    tutti_comm_free(now);
    return well();
  });
  expect_all_well(children, {1, 2, 3});
}

TEST_P(Survivors, AgreeWithTheLivingWhateverHasBecomeOfTheCommunicator) {
  const auto children = tutti::testing::start(3, GetParam(), [](int rank, tutti_comm comm) {
    uint64_t value = rank == 1 ? 6 : 7;
    if (tutti_comm_agree(comm, &value, 0) != TUTTI_OK || value != 6)
      return wrong("all are there, but did not agree on 6", comm);
    if (!sums(comm, 1, 3)) return wrong("calls go on", comm);
    if (rank == 1) die_after_a_call();
    reduce_until_it_fails(comm);
    for (const uint64_t bit : {uint64_t{1}, uint64_t{1} << 63}) {
      value = rank == 0 ? bit | 4 : bit | 8;
      if (tutti_comm_agree(comm, &value, 0) != TUTTI_PEER_FAILED || value != bit)
        return wrong("the survivors did not agree", comm);
      tutti_error error{};
      tutti_comm_last_error(comm, &error);
      if (error.rank != 1) return wrong("rank 1 is not named", comm);
    }
    return well();
  });
  expect_all_well(children, {1});
}

// A rank that never comes is left out after half of the time, and may not go on when it does come.
TEST_P(Survivors, LeaveOutWhoDoesNotComeAndItStops) {
  const auto children = tutti::testing::start(3, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm left = nullptr;
    if (rank == 2) {
      usleep(1'500'000);
      const tutti_status late = tutti_comm_shrink(comm, 2000, &left);
      return late == TUTTI_ABORTED ? well() : wrong("who was late went on, or saw a death", comm);
    }
    const uint64_t begun_ns = tutti::now_ns();
    if (tutti_comm_shrink(comm, 2000, &left) != TUTTI_OK) return wrong("no shrink", comm);
    const uint64_t took_ns = tutti::now_ns() - begun_ns;
    if (took_ns < 900'000'000u || took_ns > 2'500'000'000u) return wrong("it took too long");
    if (!sums(left, 1, 2)) return wrong("the sum is wrong", left);
    usleep(1'500'000);  // on, while rank 2 comes
    if (!sums(left, 1, 2)) return wrong("the sum is wrong later", left);
    tutti_comm_free(left);
    return well();
  });
  expect_all_well(children);
}

// The others have agreed without it and are gone: that they have left is no death, after which it
// might answer for itself.
TEST_P(Survivors, WhoComesAfterTheOthersHaveAgreedAndFreedHasNoValueOfItsOwn) {
  const auto children = tutti::testing::start(3, GetParam(), [](int rank, tutti_comm comm) {
    uint64_t value = rank == 2 ? 1 : 3;
    if (rank != 2) {
      if (tutti_comm_agree(comm, &value, 1000) != TUTTI_PEER_FAILED || value != 3)
        return wrong("two did not agree without the third", comm);
      return well();  // it is freed
    }
    usleep(1'500'000);
    for (int time = 0; time < 2; ++time) {
      const tutti_status late = tutti_comm_agree(comm, &value, 1000);
      if (late == TUTTI_OK || late == TUTTI_PEER_FAILED)
        return wrong("it agrees with nobody", comm);
    }
    tutti_comm alone = nullptr;
    if (tutti_comm_shrink(comm, 1000, &alone) == TUTTI_OK) return wrong("it goes on alone");
    return well();
  });
  expect_all_well(children);
}

// As whoever was left out may try again, and find by then that it may decide.
TEST_P(Survivors, AreToldOfOneThatIsInNoGroupOfTheirs) {
  const auto children = tutti::testing::start(4, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 3) raise(SIGKILL);
    usleep(200'000);
    if (rank == 2) return well();
    const int members[] = {1, 0};
    tutti_comm group = nullptr;
    const tutti_status status = tutti_comm_create_group(comm, members, 2, &group);
    if (status == TUTTI_OK) {  // in shared memory nobody needs rank 3 for it
      const Report told = sums(group, 1, 2) ? well() : wrong("the sum is wrong", group);
      tutti_comm_free(group);
      return told;
    }
    if (status != TUTTI_PEER_FAILED) return wrong("it is not that one has died", comm);
    tutti_error error{};
    tutti_comm_last_error(comm, &error);
    if (error.rank != 3) return wrong("rank 3 is not named", comm);
    return failed_ranks(comm) == std::vector<int>{3} ? well() : wrong("others have failed", comm);
  });
  expect_all_well(children, {3});
}

TEST_P(Survivors, ShrinkOnceEvenIfThatHasFailed) {
  const auto children = tutti::testing::start(3, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm left = nullptr;
    if (rank == 2) {
      usleep(1'000'000);
      if (tutti_comm_shrink(comm, 1000, &left) == TUTTI_OK) return wrong("it comes too late");
      usleep(500'000);  // the others end
    } else {
      if (tutti_comm_shrink(comm, 1000, &left) != TUTTI_OK) return wrong("no shrink", comm);
      if (!sums(left, 1, 2)) return wrong("the sum is wrong", left);
      tutti_comm_free(left);
    }
    if (tutti_comm_shrink(comm, 1000, &left) != TUTTI_INVALID)
      return wrong("a second shrink", comm);
    return well();
  });
  expect_all_well(children);
}

TEST_P(Survivors, IncludeWhoComesBeforeHalfOfTheTimeIsOver) {
  const auto children = tutti::testing::start(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 1) usleep(1'500'000);
    tutti_comm left = nullptr;
    if (tutti_comm_shrink(comm, 5000, &left) != TUTTI_OK) return wrong("no shrink", comm);
    if (!sums(left, 1, 3)) return wrong("the sum is wrong", left);
    tutti_comm_free(left);
    return well();
  });
  expect_all_well(children);
}

TEST_P(Survivors, ARankThatAgreesWhileOthersShrinkIsAMismatch) {
  const auto children = tutti::testing::start(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm left = nullptr;
    uint64_t value = 1;
    const tutti_status status =
        rank == 0 ? tutti_comm_shrink(comm, 5000, &left) : tutti_comm_agree(comm, &value, 5000);
    return status == TUTTI_MISMATCH ? well() : wrong("no mismatch", comm);
  });
  expect_all_well(children);
}

// What a rank has after some turns.
struct Owned {
  size_t descriptors = 0, kib = 0;
};

// After a mismatch, which ends *now: another one, whose first sum is right. The milliseconds from
// the one to the other; negative: *why says what went wrong.
double remake_once(int rank, tutti_comm* now, Report* why) {
  float in[2] = {1, 2}, out[2];
  const tutti_status status =
      tutti_allreduce(in, out, rank == 0 ? 1 : 2, TUTTI_FLOAT32, TUTTI_SUM, *now);
  const uint64_t begun_ns = tutti::now_ns();
  tutti_comm next = nullptr;
  if (status != TUTTI_MISMATCH) {
    *why = wrong("no mismatch", *now);
  } else if (tutti_comm_shrink(*now, 0, &next) != TUTTI_OK) {
    *why = wrong("no shrink", *now);
  } else if (!sums(next, 1, 2)) {
    *why = wrong("the sum is wrong", next);
  } else {
    tutti_comm_free(*now);
    *now = next;
    return double(tutti::now_ns() - begun_ns) / 1e6;
  }
  return -1;
}

// Again and again, without growth; `most_p99_ms` 0: no limit. Pools of UCX grow with the load of
// the machine and stay: a rank may own more after the second half of the turns than after the
// first, but not again and again, as it does where each turn leaves something behind.
void remake(const char* transport, int turns, double most_p99_ms) {
  constexpr int most_rounds = 4;
  const auto children = tutti::testing::start(2, transport, [&](int rank, tutti_comm comm) {
    tutti_comm now = nullptr;
    if (tutti_comm_dup(comm, &now) != TUTTI_OK) return wrong("no copy", comm);
    std::vector<double> ms;
    float grown = 1;
    for (int round = 0; grown > 0; ++round) {
      if (round == most_rounds) return wrong("memory or descriptors are left behind");
      Owned most;
      for (int turn = 0; turn < turns; ++turn) {
        Report why;
        ms.push_back(remake_once(rank, &now, &why));
        if (ms.back() < 0) return why;
        if (turn <= turns / 2) most.kib = std::max(most.kib, resident_kib());
        if (turn == turns / 2) most.descriptors = open_descriptors();
      }
      // Connections of the peer's that has not left yet.
      const bool by_descriptors = open_descriptors() > most.descriptors + 4;
      const bool by_memory = !tutti::testing::sanitized && resident_kib() > most.kib + 2048;
      const float mine = by_descriptors || by_memory ? 1 : 0;
      if (tutti_allreduce(&mine, &grown, 1, TUTTI_FLOAT32, TUTTI_MAX, now) != TUTTI_OK)
        return wrong("the maximum is wrong", now);
    }
    tutti_comm_free(now);
    std::sort(ms.begin(), ms.end());
    const double p99 = ms[ms.size() * 99 / 100];
    if (rank == 0) {
      printf("%s: %zu mismatches, ms to the next sum: p50 %.1f  p99 %.1f  max %.1f\n", transport,
             ms.size(), ms[ms.size() / 2], p99, ms.back());
      fflush(stdout);
    }
    if (most_p99_ms > 0 && p99 > most_p99_ms) return wrong("p99 is " + std::to_string(p99) + " ms");
    return well();
  });
  expect_all_well(children);
}

TEST_P(Survivors, MakeNewCommunicatorsAfterMismatchesWithoutGrowth) {
  remake(GetParam(), tutti::testing::sanitized ? 20 : 100, 0);
}
TEST_P(Survivors, LongMakeAThousandCommunicatorsAfterMismatchesWithoutGrowth) {
  remake(GetParam(), 1000, 200);
}

TEST_P(Survivors, TakeInAReplacement) {
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  const char* const transport = GetParam();
  const auto children = tutti::testing::start(3, transport, [&](int rank, tutti_comm comm) {
    if (rank == 1) raise(SIGKILL);
    reduce_until_it_fails(comm);
    tutti_comm left = nullptr, whole = nullptr;
    if (tutti_comm_shrink(comm, 0, &left) != TUTTI_OK) return wrong("no shrink", comm);
    tutti_unique_id id{};
    if (rank == 0) {
      if (tutti_unique_id_create(nullptr, &id) != TUTTI_OK) return wrong("no id");
      if (write(ids[1], &id, sizeof(id)) != ssize_t(sizeof(id))) return wrong("no pipe");
    }
    if (tutti_comm_grow(left, rank == 0 ? &id : nullptr, 1, &whole) != TUTTI_OK)
      return wrong("no growth", left);
    int new_rank = -1;
    tutti_comm_rank(whole, &new_rank);
    if (new_rank != (rank == 0 ? 0 : 1)) return wrong("the ranks have changed");
    if (!sums(whole, float(1 + new_rank), 6)) return wrong("the sum is wrong", whole);
    if (!sums(left, 1, 2)) return wrong("the old one does not work any more", left);
    tutti_comm_free(whole);
    tutti_comm_free(left);
    return well();
  });
  const pid_t replacement = fork();
  if (replacement == 0) {
    tutti_unique_id id{};
    if (read(ids[0], &id, sizeof(id)) != ssize_t(sizeof(id))) _exit(1);
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transport;
    tutti_comm whole = nullptr;
    if (tutti_comm_create_from_id(&id, 2, 3, &config, &whole) != TUTTI_OK) _exit(2);
    const bool right = sums(whole, 3, 6);
    tutti_comm_free(whole);
    _exit(right ? 0 : 3);
  }
  expect_all_well(children, {1});
  int status = -1;
  waitpid(replacement, &status, 0);
  EXPECT_EQ(status, 0);
  close(ids[0]);
  close(ids[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, Survivors,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

TEST(Growth, IsRefusedToAllWhereOneCannot) {
  tutti::testing::on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    tutti_comm made = nullptr;
    const tutti_unique_id unknown{};
    EXPECT_EQ(tutti_comm_grow(comm, &unknown, 1, &made), TUTTI_INVALID);
    EXPECT_EQ(tutti_comm_grow(comm, nullptr, 1, &made), TUTTI_INVALID);
    EXPECT_NE(tutti::testing::sentence(comm).find("the id is NULL"), std::string::npos);
    EXPECT_EQ(made, nullptr);
    EXPECT_TRUE(sums(comm, float(rank), 1));
  });
}

TEST(ShrunkAlone, ThreadsGoOnTooAndOneRankAlone) {
  tutti::testing::on_comm(3, "inproc", [](int rank, tutti_comm comm) {
    if (rank == 1) tutti_comm_abort(comm, "to go on");
    tutti_comm left = nullptr;
    ASSERT_EQ(tutti_comm_shrink(comm, 0, &left), TUTTI_OK) << tutti::testing::sentence(comm);
    EXPECT_TRUE(sums(left, 1, 3));
    tutti_comm_free(left);
    left = nullptr;
    EXPECT_EQ(tutti_comm_shrink(comm, 0, &left), TUTTI_INVALID);
    EXPECT_NE(tutti::testing::sentence(comm).find("shrunk before"), std::string::npos);
    EXPECT_EQ(left, nullptr);
  });
  tutti_comm alone = nullptr, again = nullptr;
  ASSERT_EQ(tutti_comm_create_from_env(nullptr, &alone), TUTTI_OK);
  uint64_t value = 5;
  EXPECT_EQ(tutti_comm_agree(alone, &value, 0), TUTTI_OK);
  EXPECT_EQ(value, 5u);
  ASSERT_EQ(tutti_comm_shrink(alone, 0, &again), TUTTI_OK);
  EXPECT_TRUE(sums(again, 2, 2));
  tutti_comm_free(again);
  tutti_comm_free(alone);
}

}  // namespace
