#include "lib/schedule/work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "lib/schedule/prove.h"

namespace tutti::schedule {
namespace {

// The prover counts what is sent, and on which rank most is reduced.
TEST(Work, OfAllRanksIsWhatTheProverCounts) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      SCOPED_TRACE(std::string(collective_name(algorithm.collective)) + " " + algorithm.name + " " +
                   std::to_string(nranks));
      const Shape shape{.nranks = nranks};
      const Counts counts = prove(algorithm, shape).counts;
      Work all;
      double most_reduced = 0;
      for (const Work& work : work_of(algorithm, shape)) {
        all.pieces += work.pieces;
        all.copied += work.copied;
        all.received += work.received;
        most_reduced = std::max(most_reduced, work.reduced);
      }
      EXPECT_GE(all.pieces, double(counts.messages));
      // Sent and received, and what is copied besides.
      EXPECT_GT(all.copied + all.received, 2 * counts.total_sent.value() - 1e-9);
      EXPECT_NEAR(most_reduced, counts.reduced.value(), 1e-9);
    }
  }
}

TEST(Work, IsCountedByHand) {
  const Work ring = work_of(*find_algorithm(Collective::reduce_scatter, "ring"), {.nranks = 4})[0];
  EXPECT_EQ(ring.pieces, 3) << "three sent, three received";
  EXPECT_NEAR(ring.received, 0.75, 1e-9);
  EXPECT_NEAR(ring.reduced, 0.75, 1e-9);
  const Work all = work_of(*find_algorithm(Collective::allgather, "direct"), {.nranks = 4})[0];
  EXPECT_NEAR(all.reduced, 0, 1e-9);
  EXPECT_NEAR(all.copied, 3 * 0.25 + 3 * 0.25, 1e-9) << "sent and received";
  const Work bruck = work_of(*find_algorithm(Collective::alltoall, "bruck"), {.nranks = 8})[0];
  EXPECT_EQ(bruck.pieces, 12) << "four blocks in each of three messages";
}

TEST(Work, OfManyRanksIsThatOfSomeThatLieEquallyFarApart) {
  const Algorithm& ring = *find_algorithm(Collective::allreduce, "ring");
  EXPECT_EQ(work_of(ring, {.nranks = 64}).size(), 64u);
  const std::vector<Work>& some = work_of(ring, {.nranks = 1'000});
  EXPECT_LE(some.size(), 64u);
  for (const Work& work : some) EXPECT_NEAR(work.copied, 3 * 999 / 1'000.0, 1e-9);
}

}  // namespace
}  // namespace tutti::schedule
