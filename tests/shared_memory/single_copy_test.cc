// Long blocks that ranks copy straight from each other's memory: right results also where the
// output lies over the input, inputs that are the caller's own again after the call, ranks that die
// or stay away, and the same through the ring where single copy is forbidden.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/support/processes.h"
#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"

namespace {

using tutti::testing::fill;
using tutti::testing::first_difference;
using tutti::testing::on_comm;
using tutti::testing::sentence;

class SingleCopy : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("TUTTI_SINGLE_COPY", GetParam(), 1); }
  void TearDown() override { unsetenv("TUTTI_SINGLE_COPY"); }
};

INSTANTIATE_TEST_SUITE_P(Modes, SingleCopy, ::testing::Values("always", "never"));

TUTTI_INLINED inline int32_t value(int from, int to, size_t at, int turn) {
  return int32_t(at % 8191) * 64 + from * 8 + to + turn * 1'000'000;
}

// What rank `from` has for rank `to`, in a call's turn.
struct Block {
  int from, to, turn;
  TUTTI_INLINED int32_t operator()(size_t i) const { return value(from, to, i, turn); }
};

// The sum of the blocks of ranks [0, ranks) for rank `to`.
struct SumOfBlocks {
  int ranks, to, turn;
  TUTTI_INLINED int32_t operator()(size_t i) const {
    int32_t sum = 0;
    for (int from = 0; from < ranks; ++from) sum += value(from, to, i, turn);
    return sum;
  }
};

template <class Expected>
void check(const int32_t* got, size_t count, Expected expected) {
  const size_t wrong = first_difference(got, count, expected);
  if (wrong < count)
    FAIL() << "element " << wrong << " is " << got[wrong] << ", not " << expected(wrong);
}

std::vector<int32_t> blocks_of(int rank, int nranks, size_t count, int turn) {
  std::vector<int32_t> all(size_t(nranks) * count);
  for (int to = 0; to < nranks; ++to)
    fill(all.data() + size_t(to) * count, count, Block{rank, to, turn});
  return all;
}

// `blocks`: of all ranks, for `to`.
void check_blocks(const int32_t* blocks, int nranks, size_t count, int to, int turn) {
  for (int from = 0; from < nranks; ++from) {
    SCOPED_TRACE("from rank " + std::to_string(from));
    check(blocks + size_t(from) * count, count, Block{from, to, turn});
  }
}

void check_allgather(int rank, int nranks, size_t count, int turn, bool in_place, tutti_comm comm) {
  std::vector<int32_t> all(size_t(nranks) * count, -1), mine(count);
  fill(mine.data(), count, Block{rank, 0, turn});
  int32_t* const own = all.data() + size_t(rank) * count;
  if (in_place) std::copy(mine.begin(), mine.end(), own);
  ASSERT_EQ(tutti_allgather(in_place ? TUTTI_IN_PLACE : mine.data(), all.data(), count, TUTTI_INT32,
                            comm),
            TUTTI_OK)
      << sentence(comm);
  mine.assign(count, -7);
  check_blocks(all.data(), nranks, count, 0, turn);
}

void check_alltoall(int rank, int nranks, size_t count, int turn, bool in_place, tutti_comm comm) {
  std::vector<int32_t> mine = blocks_of(rank, nranks, count, turn);
  std::vector<int32_t> out(mine.size(), -1);
  int32_t* const to = in_place ? mine.data() : out.data();
  ASSERT_EQ(tutti_alltoall(in_place ? TUTTI_IN_PLACE : mine.data(), to, count, TUTTI_INT32, comm),
            TUTTI_OK)
      << sentence(comm);
  if (!in_place) mine.assign(mine.size(), -7);
  check_blocks(to, nranks, count, rank, turn);
}

void check_reduce_scatter(int rank, int nranks, size_t count, int turn, bool in_place,
                          tutti_comm comm) {
  std::vector<int32_t> mine = blocks_of(rank, nranks, count, turn);
  std::vector<int32_t> out(count, -1);
  int32_t* const to = in_place ? mine.data() : out.data();
  ASSERT_EQ(tutti_reduce_scatter_block(in_place ? TUTTI_IN_PLACE : mine.data(), to, count,
                                       TUTTI_INT32, TUTTI_SUM, comm),
            TUTTI_OK)
      << sentence(comm);
  check(to, count, SumOfBlocks{nranks, rank, turn});
  mine.assign(mine.size(), -7);
}

// Those that have a root, or a rank that only others take from.
void check_rooted(int rank, int nranks, size_t count, int turn, bool in_place, tutti_comm comm) {
  const int root = turn % nranks;
  const auto n = size_t(nranks);
  std::vector<int32_t> vector(count), out(count, -1);
  const auto refill = [&] { fill(vector.data(), count, Block{rank, 0, turn}); };

  if (rank == root) refill();
  ASSERT_EQ(tutti_broadcast(vector.data(), count, TUTTI_INT32, root, comm), TUTTI_OK);
  check(vector.data(), count, Block{root, 0, turn});

  refill();
  const bool over_input = in_place && rank == root;
  int32_t* const total = over_input ? vector.data() : out.data();
  ASSERT_EQ(tutti_reduce(over_input ? TUTTI_IN_PLACE : vector.data(), total, count, TUTTI_INT32,
                         TUTTI_SUM, root, comm),
            TUTTI_OK);
  if (rank == root) {
    check(total, count, SumOfBlocks{nranks, 0, turn});
  } else {
    vector.assign(count, -7);  // the root has it
  }

  refill();
  int32_t* const prefix = in_place ? vector.data() : out.data();
  ASSERT_EQ(tutti_scan(in_place ? TUTTI_IN_PLACE : vector.data(), prefix, count, TUTTI_INT32,
                       TUTTI_SUM, comm),
            TUTTI_OK);
  check(prefix, count, SumOfBlocks{rank + 1, 0, turn});

  refill();
  std::vector<int32_t> blocks(rank == root ? n * count : 0);
  ASSERT_EQ(tutti_gather(vector.data(), blocks.data(), count, TUTTI_INT32, root, comm), TUTTI_OK);
  if (rank == root) {
    check_blocks(blocks.data(), nranks, count, 0, turn);
    blocks = blocks_of(root, nranks, count, turn);
  }
  ASSERT_EQ(tutti_scatter(blocks.data(), out.data(), count, TUTTI_INT32, root, comm), TUTTI_OK);
  blocks.assign(blocks.size(), -7);
  check(out.data(), count, Block{root, rank, turn});
}

TEST_P(SingleCopy, GivesEveryBlockAndLeavesTheInputToItsOwner) {
  for (const char* transport : {"shm", "inproc"}) {
    for (const int nranks : {2, 3, 5}) {
      on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
        int turn = 0;
        // On both sides of where blocks become long, of the longest piece, and short ones between.
        for (const size_t count : {size_t{8191}, size_t{8192}, size_t{3}, size_t{70'001}}) {
          // On no rank, on all, or on some: these write over what the others would copy from.
          for (const int every : {0, 1, 2}) {
            const bool in_place = every != 0 && rank % every == 0;
            check_allgather(rank, nranks, count, ++turn, in_place, comm);
            check_alltoall(rank, nranks, count, ++turn, in_place, comm);
            check_reduce_scatter(rank, nranks, count, ++turn, in_place, comm);
            check_rooted(rank, nranks, count, ++turn, in_place, comm);
          }
        }
      });
    }
  }
}

TEST_P(SingleCopy, WaitsForALateRank) {
  on_comm(3, "shm", [&](int rank, tutti_comm comm) {
    for (int turn = 0; turn < 30; ++turn) {
      if (turn % 3 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      check_alltoall(rank, 3, 20'000, turn, turn % 2 == 1, comm);
    }
  });
}

TEST_P(SingleCopy, ARankThatStaysAwayIsNamed) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  tutti::testing::on_threads(2, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = "shm";
    config.timeout_ms = 300;
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK);
    check_alltoall(rank, 2, 50'000, 1, false, comm);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    std::vector<int32_t> in(100'000), out(100'000);
    const tutti_status status = tutti_alltoall(in.data(), out.data(), 50'000, TUTTI_INT32, comm);
    if (rank == 0) {
      EXPECT_EQ(status, TUTTI_TIMEOUT) << sentence(comm);
      EXPECT_NE(sentence(comm).find("rank 1"), std::string::npos) << sentence(comm);
    } else if (std::string(GetParam()) == "always") {
      EXPECT_NE(status, TUTTI_OK);  // what rank 0 has taken back must not be used
    }
    tutti_comm_free(comm);
  });
}

TEST_P(SingleCopy, ARankThatDiesBetweenTheOthersIsNamed) {
  constexpr int nranks = 3, killed = 1;
  std::vector<tutti::testing::Child> children =
      tutti::testing::start(nranks, "shm", [](int rank, tutti_comm comm) {
        std::vector<int32_t> in(3 << 20, rank), out(3 << 20);
        tutti_status status = TUTTI_OK;
        for (int call = 0; status == TUTTI_OK; ++call) {
          if (rank == killed && call == 20) raise(SIGKILL);
          status = tutti_alltoall(in.data(), out.data(), in.size() / 3, TUTTI_INT32, comm);
        }
        return tutti::testing::report_of(status, comm);
      });
  for (int rank = 0; rank < nranks; ++rank) {
    tutti::testing::Report report;
    const bool told = tutti::testing::finish(children[size_t(rank)], &report);
    EXPECT_EQ(told, rank != killed);
    if (rank == killed) continue;
    EXPECT_EQ(report.status, TUTTI_PEER_FAILED) << report.text;
    EXPECT_EQ(report.rank, killed) << report.text;
  }
}

}  // namespace
