// The prover's own semantics, on schedules of a few lines.
#include "lib/schedule/prove.h"

#include <gtest/gtest.h>

#include "algorithms/registry.h"
#include "lib/schedule/text.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

Verdict prove_text(const std::string& text, Collective goal = Collective::allreduce,
                   uint32_t root = 0) {
  Programs programs;
  const Status status = parse(text, &programs);
  EXPECT_TRUE(status.ok()) << status.text();
  return prove(programs, goal, root);
}

TEST(Prover, AcceptsASwapOfTwoVectorsThroughScratch) {
  const Verdict verdict = prove_text(
      "rank 0 of 2, 1 chunks, 1 scratch rows\n"
      "send 1 output[0:1)\nrecv 1 scratch[0:1)\nreduce output[0:1) right scratch[0:1)\n"
      "rank 1 of 2, 1 chunks, 1 scratch rows\n"
      "send 0 output[0:1)\nrecv 0 scratch[0:1)\nreduce output[0:1) left scratch[0:1)\n");
  EXPECT_TRUE(verdict.sound()) << verdict.failure;
  EXPECT_TRUE(verdict.ordered);
  EXPECT_TRUE(verdict.position_independent);
  EXPECT_EQ(verdict.rounds, 1u);
  EXPECT_EQ(verdict.counts.messages, 2u);
}

TEST(Prover, ARingInWhichAllSendFirstDoesNotDeadlock) {
  std::string text;
  for (int r = 0; r < 3; ++r) {
    text += "rank " + std::to_string(r) + " of 3, 1 chunks, 1 scratch rows\nsend " +
            std::to_string((r + 1) % 3) + " output[0:1)\nrecv " + std::to_string((r + 2) % 3) +
            " scratch[0:1)\n";
  }
  const Verdict verdict = prove_text(text);
  EXPECT_TRUE(verdict.deadlock_free) << verdict.failure;
  EXPECT_FALSE(verdict.complete);
}

TEST(Prover, NamesTheCycleOfADeadlock) {
  const Verdict verdict = prove_text(
      "rank 0 of 2, 1 chunks, 0 scratch rows\nsend 1 output[0:1)\nrecv_reduce 1 right output[0:1)\n"
      "rank 1 of 2, 1 chunks, 0 scratch rows\nsend 0 output[0:1)\nrecv_reduce 0 left "
      "output[0:1)\n");
  EXPECT_TRUE(verdict.matched);
  EXPECT_FALSE(verdict.deadlock_free);
  EXPECT_EQ(
      verdict.failure,
      "rank 0, step 2 (recv_reduce 1 right output[0:1)): it waits for ever for "
      "rank 0, step 1 (send 1 output[0:1)), which waits for rank 1, step 2 (recv_reduce 0 left "
      "output[0:1)), which waits for rank 1, step 1 (send 0 output[0:1)), which waits for rank "
      "0, step 2 (recv_reduce 1 right output[0:1))");
}

TEST(Prover, NamesRankStepAndCause) {
  EXPECT_EQ(prove_text("rank 0 of 2, 1 chunks, 0 scratch rows\nsend 1 output[0:1)\n"
                       "rank 1 of 2, 1 chunks, 0 scratch rows\n")
                .failure,
            "rank 0, step 1 (send 1 output[0:1)): rank 1 has no receive for it");
  EXPECT_EQ(prove_text("rank 0 of 2, 1 chunks, 0 scratch rows\nsend 1 output[0:1)\n"
                       "rank 1 of 2, 1 chunks, 0 scratch rows\nrecv 0 output[0:1)\n")
                .failure,
            "rank 0: it ends with chunk 0 lacking the contribution of rank 1");
}

TEST(Prover, CountsRoundsByPorts) {
  // Rank 0 hands its vector to three others: three rounds with one port, one with three.
  const Algorithm& flat = *find_algorithm(Collective::broadcast, "flat");
  const Verdict verdict = prove(flat, 4);
  EXPECT_EQ(verdict.rounds, 3u);
  EXPECT_EQ(verdict.rounds_multiport, 1u);
}

TEST(Prover, MessagesOfOnePairTakeARoundEachHoweverManyPorts) {
  const Verdict verdict = prove_text(
      "rank 0 of 2, 2 chunks, 0 scratch rows\nsend 1 output[0:1)\nsend 1 output[1:2)\n"
      "rank 1 of 2, 2 chunks, 0 scratch rows\nrecv 0 output[0:1)\nrecv 0 output[1:2)\n",
      Collective::broadcast);
  EXPECT_TRUE(verdict.sound()) << verdict.failure;
  EXPECT_EQ(verdict.rounds_multiport, 2u);
}

TEST(Prover, BroadcastMustStartAtTheRoot) {
  const Algorithm& binomial = *find_algorithm(Collective::broadcast, "binomial");
  const Programs programs = programs_of(binomial, 4, 2);
  EXPECT_TRUE(prove(programs, Collective::broadcast, 2).sound());
  const Verdict verdict = prove(programs, Collective::broadcast, 1);
  EXPECT_FALSE(verdict.defined) << "rank 2 sends what it does not have";
}

TEST(Prover, ABroadcastThatForgetsARankIsNotComplete) {
  Programs programs = programs_of(*find_algorithm(Collective::broadcast, "flat"), 4);
  programs[2].steps.clear();
  std::erase_if(programs[0].steps, [](const Step& step) { return step.peer == 2; });
  const Verdict verdict = prove(programs, Collective::broadcast);
  EXPECT_TRUE(verdict.deadlock_free);
  EXPECT_FALSE(verdict.complete);
}

TEST(Prover, OneRankNeedsNoSteps) {
  const Verdict verdict = prove_text("rank 0 of 1, 1 chunks, 0 scratch rows\n");
  EXPECT_TRUE(verdict.sound());
  EXPECT_TRUE(verdict.ordered);
  EXPECT_EQ(verdict.rounds, 0u);
}

TEST(Prover, ContributionsThatGrowWithoutEndAreJudgedInBoundedTime) {
  std::string text = "rank 0 of 1, 1 chunks, 1 scratch rows\n";
  for (int i = 0; i < 200; ++i) {  // doubles each time: 2^200 contributions
    text += "copy scratch[0:1) output[0:1)\nreduce output[0:1) right scratch[0:1)\n";
  }
  EXPECT_FALSE(prove_text(text).complete);
}

TEST(Prover, TracesEveryMessageAndWhatItLeaves) {
  Trace trace;
  const Verdict verdict = prove(allreduce("ring"), 4, 0, &trace);
  EXPECT_EQ(trace.transfers.size(), verdict.counts.messages);
  EXPECT_EQ(trace.changes.size(), verdict.counts.messages) << "a chunk a message";
  uint32_t finished = 0;
  for (const Trace::Change& change : trace.changes) finished += change.contributions == 4;
  EXPECT_EQ(finished, 16u) << "each chunk on each rank, once";
}

// Four ranks send to rank 0, which combines them: ((0 1) 2) 3, or (0 1)(2 3), and not at once.
std::string collected(const std::string& reduces) {
  std::string text = "rank 0 of 4, 1 chunks, 3 scratch rows\n";
  for (int r = 1; r < 4; ++r) {
    const std::string row = "scratch[" + std::to_string(r - 1) + ":" + std::to_string(r) + ")\n";
    text += "recv " + std::to_string(r) + " " + row;
  }
  text += reduces;
  for (int r = 1; r < 4; ++r) {
    text += "rank " + std::to_string(r) + " of 4, 1 chunks, 0 scratch rows\nsend 0 output[0:1)\n";
  }
  return text;
}

TEST(Prover, KnowsTheCanonicalTreeAndAFoldAtOnce) {
  const std::string first = "reduce output[0:1) right scratch[0:1)\n";
  const Verdict left = prove_text(collected(first + "reduce output[0:1) right scratch[1:2)\n" +
                                            "reduce output[0:1) right scratch[2:3)\n"),
                                  Collective::reduce);
  EXPECT_TRUE(left.sound()) << left.failure;
  EXPECT_FALSE(left.canonical);
  EXPECT_TRUE(left.one_fold);
  const std::string pairs =
      "reduce scratch[1:2) right scratch[2:3)\nreduce output[0:1) right scratch[1:2)\n";
  const Verdict tree = prove_text(collected(first + pairs), Collective::reduce);
  EXPECT_TRUE(tree.canonical);
  EXPECT_TRUE(tree.one_fold);
  const Verdict interrupted =
      prove_text(collected(first + "copy scratch[0:1) output[0:1)\n" + pairs), Collective::reduce);
  EXPECT_TRUE(interrupted.canonical);
  EXPECT_FALSE(interrupted.one_fold) << "what was combined before the copy is rounded";
  const Verdict butterfly = prove(allreduce("butterfly"), 4);
  EXPECT_TRUE(butterfly.canonical);
  EXPECT_FALSE(butterfly.one_fold) << "partial sums travel";
  EXPECT_TRUE(prove(allreduce("butterfly"), 2).one_fold);
}

TEST(Counter, CountsWhatTheProverCounts) {
  for (const Algorithm& algorithm : algorithms()) {
    Counts counts;
    for (uint32_t r = 0; r < 7; ++r) {
      Counter counter(Goal(algorithm.collective, 7).buffers());
      algorithm.emit({.rank = r, .nranks = 7}, counter);
      counts.add(counter);
    }
    const Verdict verdict = prove(algorithm, 7);
    EXPECT_EQ(counts.messages, verdict.counts.messages);
    EXPECT_EQ(counts.sent, verdict.counts.sent);
    EXPECT_EQ(counts.reduced, verdict.counts.reduced);
  }
}

}  // namespace
}  // namespace tutti::schedule
