#include "lib/schedule/work.h"

#include <gtest/gtest.h>

#include "algorithms/registry.h"
#include "lib/schedule/prove.h"

namespace tutti::schedule {
namespace {

constexpr double nearly = 1e-9;

// The prover counts what is sent, and on which rank most is reduced.
TEST(Work, OfAllRanksIsWhatTheProverCounts) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      SCOPED_TRACE(std::string(collective_name(algorithm.collective)) + " " + algorithm.name + " " +
                   std::to_string(nranks));
      const Shape shape{.nranks = nranks};
      const Counts counts = prove(algorithm, shape).counts;
      const WorkOfAll& work = work_of(algorithm, shape);
      // Messages of several pieces, and copies, come on top.
      EXPECT_GE(work.mean.pieces * nranks, double(counts.messages) - nearly);
      EXPECT_GE(work.mean.moved * nranks, counts.total_sent.value() - nearly);
      EXPECT_NEAR(work.busiest.reduced, counts.reduced.value(), nearly);
      EXPECT_GE(work.busiest.moved, work.mean.moved - nearly);
      EXPECT_LE(work.span.reduced, 2 * work.span.moved + nearly);
    }
  }
}

const WorkOfAll& of(Collective collective, const char* name, const Shape& shape) {
  return work_of(*find_algorithm(collective, name), shape);
}

TEST(Work, IsCountedByHand) {
  const WorkOfAll& ring = of(Collective::reduce_scatter, "ring", {.nranks = 4});
  EXPECT_NEAR(ring.mean.pieces, 3, nearly) << "three sent, three received";
  EXPECT_NEAR(ring.mean.moved, 0.75, nearly);
  EXPECT_NEAR(ring.mean.reduced, 0.75, nearly);
  EXPECT_NEAR(ring.span.moved, 0.375, nearly) << "a block in each of three rounds";
  EXPECT_NEAR(ring.span.reduced, 0.75, nearly);
  const WorkOfAll& gather = of(Collective::allgather, "direct", {.nranks = 4});
  EXPECT_NEAR(gather.mean.moved, 0.75, nearly) << "three blocks sent, three received";
  EXPECT_EQ(gather.busiest.reduced, 0);
  const WorkOfAll& bruck = of(Collective::alltoall, "bruck", {.nranks = 8});
  EXPECT_NEAR(bruck.busiest.pieces, 12, nearly) << "four blocks in each of three messages";
  const WorkOfAll& tree = of(Collective::broadcast, "binomial", {.nranks = 8, .root = 3});
  EXPECT_NEAR(tree.busiest.pieces, 1.5, nearly) << "the root sends to three";
  EXPECT_NEAR(tree.mean.moved, 7 / 8.0, nearly);
  EXPECT_NEAR(tree.span.moved, 1.5, nearly) << "three rounds";
}

// Each rank of a chain has little work; they do it one after the other.
TEST(Work, OfAChainHasTheSpanOfItsRounds) {
  const WorkOfAll& chain = of(Collective::scan, "chain", {.nranks = 8});
  EXPECT_LE(chain.busiest.moved, 2);
  EXPECT_NEAR(chain.span.moved, 3.5, nearly);
  EXPECT_NEAR(of(Collective::scan, "chain", {.nranks = 100}).span.moved, 31.5, nearly)
      << "as if there were 64";
}

}  // namespace
}  // namespace tutti::schedule
