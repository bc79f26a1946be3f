#include "lib/schedule/work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "lib/schedule/prove.h"

namespace tutti::schedule {
namespace {

Work mean(const std::vector<Work>& all) {
  Work sum;
  for (const Work& work : all) {
    sum.pieces += work.pieces / double(all.size());
    sum.moved += work.moved / double(all.size());
    sum.reduced += work.reduced / double(all.size());
  }
  return sum;
}

// The prover counts what is sent, and on which rank most is reduced.
TEST(Work, OfAllRanksIsWhatTheProverCounts) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      SCOPED_TRACE(std::string(collective_name(algorithm.collective)) + " " + algorithm.name + " " +
                   std::to_string(nranks));
      const Shape shape{.nranks = nranks};
      const Counts counts = prove(algorithm, shape).counts;
      const std::vector<Work>& all = work_of(algorithm, shape);
      ASSERT_EQ(all.size(), nranks);
      const Work of_a_rank = mean(all);
      // Messages of several pieces, and copies, come on top.
      EXPECT_GE(of_a_rank.pieces * nranks, double(counts.messages) - 1e-9);
      EXPECT_GE(of_a_rank.moved * nranks, counts.total_sent.value() - 1e-9);
      double most_reduced = 0;
      for (const Work& work : all) most_reduced = std::max(most_reduced, work.reduced);
      EXPECT_NEAR(most_reduced, counts.reduced.value(), 1e-9);
    }
  }
}

TEST(Work, IsCountedByHand) {
  const Work ring = work_of(*find_algorithm(Collective::reduce_scatter, "ring"), {.nranks = 4})[0];
  EXPECT_EQ(ring.pieces, 3) << "three sent, three received";
  EXPECT_NEAR(ring.moved, 0.75, 1e-9);
  EXPECT_NEAR(ring.reduced, 0.75, 1e-9);
  const Work all = work_of(*find_algorithm(Collective::allgather, "direct"), {.nranks = 4})[0];
  EXPECT_NEAR(all.moved, 0.75, 1e-9) << "three blocks sent, three received";
  EXPECT_EQ(all.reduced, 0);
  const Work bruck = work_of(*find_algorithm(Collective::alltoall, "bruck"), {.nranks = 8})[0];
  EXPECT_EQ(bruck.pieces, 12) << "four blocks in each of three messages";
  const std::vector<Work>& tree =
      work_of(*find_algorithm(Collective::broadcast, "binomial"), {.nranks = 8, .root = 3});
  EXPECT_EQ(tree[3].pieces, 1.5) << "the root sends to three";
  EXPECT_EQ(tree[4].pieces, 0.5) << "a leaf";
}

}  // namespace
}  // namespace tutti::schedule
