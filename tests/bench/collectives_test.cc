// The rows against a simulation of each collective, written down element by element.
#include "bench/collectives.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/calls.h"
#include "bench/error.h"

namespace tutti::bench {
namespace {

using Vector = std::vector<int32_t>;

constexpr int nranks = 3, root = 1;
constexpr size_t block_count = 5000;  // more than a period

int32_t input(int rank, size_t at) {
  return int32_t(Oracle::value(TUTTI_INT32, TUTTI_SUM, nranks, rank, at).first);
}
int32_t sum(int ranks, size_t at) {
  int32_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += input(rank, at);
  return total;
}

// What `rank` must get; empty where it gets nothing.
Vector result(const std::string& name, int rank) {
  const bool at_root = rank == root;
  Vector out;
  auto vector = [&](auto element) {
    for (size_t i = 0; i < block_count; ++i) out.push_back(element(i));
  };
  auto blocks = [&](size_t begin) {
    for (int from = 0; from < nranks; ++from)
      vector([&](size_t i) { return input(from, begin + i); });
  };
  const size_t own = size_t(rank) * block_count;
  if (name == "allreduce" || (name == "reduce" && at_root))
    vector([](size_t i) { return sum(nranks, i); });
  if (name == "broadcast" && !at_root) vector([](size_t i) { return input(root, i); });
  if (name == "allgather" || (name == "gather" && at_root)) blocks(0);
  if (name == "alltoall") blocks(own);
  if (name == "reduce_scatter") vector([&](size_t i) { return sum(nranks, own + i); });
  if (name == "scatter") vector([&](size_t i) { return input(root, own + i); });
  if (name == "scan") vector([&](size_t i) { return sum(rank + 1, i); });
  if (name == "exscan" && rank) vector([&](size_t i) { return sum(rank, i); });
  if (name == "sendrecv") vector([&](size_t i) { return input((rank + 2) % nranks, i); });
  return out;
}

TEST(Collectives, RowsKnowEveryElementOfEveryResult) {
  for (const Collective& collective : collectives()) {
    for (int rank = 0; rank < nranks; ++rank) {
      SCOPED_TRACE(std::string(collective.name) + " on rank " + std::to_string(rank));
      const Oracle oracle(TUTTI_INT32, TUTTI_SUM, nranks, rank);
      const Place place{rank, nranks, root, block_count};
      Vector right = result(collective.name, rank);
      EXPECT_EQ(collective.lengths(place).recv, collective.sized ? right.size() : 0);
      auto wrong = [&] {
        return collective.wrong(
            {oracle, place, reinterpret_cast<const unsigned char*>(right.data()), 4});
      };
      EXPECT_EQ(wrong(), 0u);
      for (size_t at : {size_t(0), right.size() / 2, right.size() - 1}) {
        if (right.empty()) continue;
        ++right[at];
        EXPECT_EQ(wrong(), 1u);
        --right[at];
      }
    }
  }
}

TEST(Collectives, SizesAreThoseOfTheLongerBuffer) {
  for (const Collective& collective : collectives()) {
    size_t longest = 0;
    for (int rank = 0; rank < nranks; ++rank) {
      const Lengths lengths = collective.lengths({rank, nranks, root, block_count});
      longest = std::max({longest, lengths.send, lengths.recv});
    }
    EXPECT_EQ(collective.longest(nranks, block_count), longest) << collective.name;
  }
  const Collective& allgather = find_collective("allgather");
  EXPECT_EQ(allgather.count_within(3, 1000), 333u);
  EXPECT_EQ(allgather.count_within(3, 1), 1u);
  EXPECT_EQ(find_collective("broadcast").count_within(3, 1000), 1000u);
}

TEST(Collectives, FactorsAreThoseOfNcclTests) {
  for (const auto& [name, factor] : {std::pair{"allreduce", 1.5}, std::pair{"allgather", 0.75},
                                     std::pair{"alltoall", 0.75}, std::pair{"broadcast", 1.0}})
    EXPECT_DOUBLE_EQ(find_collective(name).factor(4), factor) << name;
  EXPECT_EQ(find_collective("gather").factor_shown(4), " x (n-1)/n = 0.75");
  EXPECT_EQ(find_collective("sendrecv").factor_shown(4), "");
}

TEST(Collectives, EachHasAllFormsOfItsCall) {
  for (const Collective& collective : collectives()) {
    const Calls calls = calls_of(collective);
    EXPECT_TRUE(calls.plain && calls.begin && calls.init) << collective.name;
  }
}

TEST(Collectives, AnUnknownNameSaysWhatIsAllowed) {
  try {
    find_collective("allfold");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("allreduce, reduce, broadcast"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::bench
