// The C++ wrapper: each of its calls does what the C function does, and throws the library's
// sentence.
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/support/thread_exchange.h"
#include "tutti/tutti.hpp"

namespace {

constexpr int nranks = 3;
using Values = std::vector<int32_t>;

template <class Body>
void on_ranks(Body&& body) {
  const tutti_unique_id id = tutti::make_unique_id();
  tutti::testing::on_threads(nranks, [&](int rank) {
    const auto comm = tutti::communicator::from_id(id, rank, nranks);
    body(rank, comm);
  });
}

std::span<const int32_t> in(const Values& values) { return values; }
std::span<int32_t> out(Values& values) { return values; }

TEST(Cpp, CollectivesTakeSpans) {
  on_ranks([](int rank, const tutti::communicator& comm) {
    const Values mine = {rank, 10 * rank};
    Values all(6), two(2);
    comm.allgather(in(mine), out(all));
    EXPECT_EQ(all, (Values{0, 0, 1, 10, 2, 20}));
    all.assign(6, -1);
    comm.gather(in(mine), out(all), 1);
    EXPECT_EQ(all[5], rank == 1 ? 20 : -1);
    const Values six = {0, 1, 2, 3, 4, 5};
    comm.scatter(in(six), out(two), 2);
    EXPECT_EQ(two, (Values{2 * rank, 2 * rank + 1}));
    comm.reduce_scatter(in(six), out(two));
    EXPECT_EQ(two, (Values{6 * rank, 6 * rank + 3}));
    comm.alltoall(in(six), out(all));
    EXPECT_EQ(all,
              (Values{2 * rank, 2 * rank + 1, 2 * rank, 2 * rank + 1, 2 * rank, 2 * rank + 1}));
    comm.scan(in(mine), out(two));
    EXPECT_EQ(two[1], rank == 0 ? 0 : rank == 1 ? 10 : 30);
    comm.exscan(in(mine), out(two));
    EXPECT_EQ(two[1], rank == 2 ? 10 : 0);

    const std::vector<size_t> counts = {1, 2, 3};
    const Values some(size_t(rank) + 1, rank);
    comm.allgatherv(in(some), out(all), counts);
    EXPECT_EQ(all, (Values{0, 1, 1, 2, 2, 2}));
    const std::vector<size_t> from_each(3, size_t(rank) + 1);
    Values gathered(3 * (size_t(rank) + 1));
    comm.alltoallv(in(six), counts, out(gathered), from_each);
    EXPECT_EQ(gathered.back(), six[rank == 0 ? 0 : rank == 1 ? 2 : 5]);
  });
}

TEST(Cpp, MessagesGoBothWaysAndInGroups) {
  on_ranks([](int rank, const tutti::communicator& comm) {
    const int next = (rank + 1) % nranks, previous = (rank + 2) % nranks;
    const Values mine(1, rank);
    Values got(1, -1);
    comm.sendrecv(in(mine), next, out(got), previous);
    EXPECT_EQ(got[0], previous);
    comm.group([&] {
      comm.recv(out(got), next);
      comm.send(in(mine), previous);
    });
    EXPECT_EQ(got[0], next);
    // A body that throws sends nothing, and the group is closed.
    EXPECT_THROW(comm.group([&] {
      comm.send(in(mine), next);
      throw std::runtime_error("changed its mind");
    }),
                 std::runtime_error);
    comm.barrier();
  });
}

TEST(Cpp, RequestsAreWaitedForAtTheLatestWhenTheyGo) {
  on_ranks([](int rank, const tutti::communicator& comm) {
    const int next = (rank + 1) % nranks, previous = (rank + 2) % nranks;
    const Values mine(2, rank);
    Values sum(2), all(2 * nranks), got(2, -1);
    tutti::request first = comm.iallreduce(in(mine), out(sum));
    tutti::request second = comm.iallgather(in(mine), out(all));
    {
      const tutti::request to = comm.isend(in(mine), next);
      const tutti::request from = comm.irecv(out(got), previous);
    }
    EXPECT_EQ(got, Values(2, previous));
    int source = -1;
    {
      const tutti::request to = comm.isend(in(mine), next, 3);
      const tutti::request from = comm.irecv_any(out(got), source, 3);
    }
    EXPECT_EQ(source, previous);
    EXPECT_EQ(got, Values(2, previous));
    while (!second.test()) continue;
    first.wait();
    EXPECT_EQ(sum, Values(2, 0 + 1 + 2));
    EXPECT_EQ(all, (Values{0, 0, 1, 1, 2, 2}));
    Values changing = mine;
    tutti::request again = comm.allreduce_init(in(changing), out(sum));
    for (int times = 1; times <= 3; ++times) {
      changing.assign(2, rank * times);
      again.start();
      again.wait();
      EXPECT_EQ(sum, Values(2, 3 * times));
    }
    EXPECT_THROW(first.start(), tutti::error) << "it has ended";
  });
}

TEST(Cpp, SparseAndCompressedAllreduces) {
  on_ranks([](int rank, const tutti::communicator& comm) {
    const std::vector<uint32_t> indices = {1, uint32_t(4 + rank)};
    const Values values = {10, rank};
    std::vector<uint32_t> all(7);
    Values sums(7);
    const size_t entries = comm.allreduce_sparse(std::span<const uint32_t>(indices), in(values),
                                                 std::span<uint32_t>(all), out(sums), 7);
    all.resize(entries);
    sums.resize(entries);
    EXPECT_EQ(all, (std::vector<uint32_t>{1, 4, 5, 6}));
    EXPECT_EQ(sums, (Values{30, 0, 1, 2}));

    tutti::topk<float> largest(3, 1);
    tutti::topk<float> moved(std::move(largest));
    const std::vector<float> mine = {1, 5, float(rank)};
    std::vector<float> sum(3);
    comm.allreduce(moved, std::span<const float>(mine), std::span<float>(sum));
    EXPECT_EQ(sum, (std::vector<float>{0, 15, 0}));
    EXPECT_EQ(moved.residual()[2], float(rank));
    comm.allreduce(tutti::find_codec("bf16"), mine, sum);
    EXPECT_EQ(sum, (std::vector<float>{3, 15, 3}));
    EXPECT_THROW(tutti::find_codec("zip"), tutti::error);
    EXPECT_THROW(tutti::topk<double>(3, 4), tutti::error);
  });
}

TEST(Cpp, RanksAgreeShrinkAndGrow) {
  on_ranks([](int rank, const tutti::communicator& comm) {
    EXPECT_TRUE(comm.failed_ranks().empty());
    bool all = false;
    EXPECT_EQ(comm.agree(rank == 1 ? 6 : 3, &all), 2u);
    EXPECT_TRUE(all);
    tutti::communicator left = comm.shrink();
    EXPECT_EQ(left.size(), nranks);
    EXPECT_THROW(left.grow({}, 1), tutti::error);
    left.barrier();
  });
}

TEST(Cpp, SpansOfWrongLengthsThrowBeforeAnythingIsSent) {
  on_ranks([](int, const tutti::communicator& comm) {
    Values two(2), five(5);
    const auto refused = [](auto&& call) {
      try {
        call();
        return false;
      } catch (const tutti::error& e) {
        return e.status() == TUTTI_INVALID && e.what()[0] != '\0';
      }
    };
    const std::vector<size_t> counts = {1, 2};
    EXPECT_TRUE(refused([&] { comm.allreduce(in(two), out(five)); }));
    EXPECT_TRUE(refused([&] { comm.allgather(in(two), out(five)); }));
    EXPECT_TRUE(refused([&] { comm.gather(in(two), out(five), comm.rank()); }));
    EXPECT_TRUE(refused([&] { comm.scatter(in(five), out(two), comm.rank()); }));
    EXPECT_TRUE(refused([&] { comm.reduce_scatter(in(five), out(two)); }));
    EXPECT_TRUE(refused([&] { comm.alltoall(in(five), out(five)); }));
    EXPECT_TRUE(refused([&] { comm.scan(in(five), out(two)); }));
    EXPECT_TRUE(refused([&] { comm.exscan(in(five), out(two)); }));
    EXPECT_TRUE(refused([&] { comm.allgatherv(in(two), out(five), counts); }));
    EXPECT_TRUE(refused([&] { comm.alltoallv(in(two), counts, out(five), counts); }));
    comm.barrier();
  });
}

}  // namespace
