// The proof of every algorithm at every rank count from 1 to 64: sound, and exactly as it claims.
// The claims are checked once more against the master table of the literature, written down here
// independently of the formulas beside the code.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ostream>

#include "algorithms/registry.h"
#include "lib/schedule/levels.h"
#include "lib/schedule/prove.h"

namespace tutti::schedule {
namespace {

constexpr uint32_t most_ranks = 64;

struct Case {
  const Algorithm* algorithm;
  uint32_t nranks;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.algorithm->name << " on " << c.nranks; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t p = 1; p <= most_ranks; ++p) all.push_back({&algorithm, p});
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(collective_name(info.param.algorithm->collective)) + "_" +
                     info.param.algorithm->name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name + "_p" + std::to_string(info.param.nranks);
}

class EveryAlgorithm : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(OnEveryRankCount, EveryAlgorithm, testing::ValuesIn(cases()), name_of);

TEST_P(EveryAlgorithm, IsSoundAndCostsWhatItClaims) {
  const auto& [algorithm, p] = GetParam();
  const Verdict verdict = prove(*algorithm, p);
  EXPECT_TRUE(verdict.well_formed);
  EXPECT_TRUE(verdict.defined);
  EXPECT_TRUE(verdict.in_place_safe);
  EXPECT_TRUE(verdict.matched);
  EXPECT_TRUE(verdict.deadlock_free);
  EXPECT_TRUE(verdict.complete);
  EXPECT_TRUE(verdict.same_bits);
  EXPECT_EQ(verdict.failure, "");
  EXPECT_EQ(broken_claim(*algorithm, p, verdict), "");
  const Counts& counts = verdict.counts;
  EXPECT_LE(counts.sent, counts.total_sent);
  EXPECT_LE(counts.most_messages, counts.messages);
  if (algorithm->collective == Collective::allreduce) {
    // Bounds that nothing can beat: each contribution must be collected and each result handed out.
    EXPECT_GE(counts.total_sent, Rational(2 * (int64_t(p) - 1)));
    EXPECT_GE(counts.reduced, Rational(p - 1, p));
    EXPECT_GE(verdict.rounds, std::ceil(std::log2(p)));
  }
}

TEST_P(EveryAlgorithm, ServesEveryRoot) {
  const auto& [algorithm, p] = GetParam();
  if (!is_rooted(algorithm->collective)) return;
  for (uint32_t root = 0; root < p; root += p <= 16 ? 1 : p / 5) {
    const Verdict verdict = prove(*algorithm, p, root);
    EXPECT_TRUE(verdict.sound()) << "root " << root << ": " << verdict.failure;
    EXPECT_EQ(broken_claim(*algorithm, p, verdict, root), "") << "root " << root;
  }
}

// Rows of the master table: rounds, rounds with p-1 ports (0: the table has none), vectors sent and
// reduced by the busiest rank, rank order, position independence.
struct Row {
  double rounds, multiport, sent, reduced;
  bool ordered, position_independent;
};

Row literature(const std::string& name, double p) {
  const double big_l = std::ceil(std::log2(p)), l = std::floor(std::log2(p)), q = std::exp2(l);
  const double folded = p > q ? 1 : 0, share = (p - 1) / p;
  if (name == "master-worker") return {2 * (p - 1), 0, p - 1, p - 1, true, true};
  if (name == "all-to-all") return {p - 1, 1, p - 1, p - 1, true, true};
  if (name == "two-level") {  // in pairs
    const double pairs = std::ceil(p / 2);
    return {pairs * 2 > p ? p : pairs, 2, pairs * 2 > p ? p - 1 : pairs, pairs, true, true};
  }
  if (name == "two-shot") return {2 * (p - 1), 2, 2 * share, share, true, true};
  if (name == "round-robin") return {2 * (p - 1), 0, 2 * share, share, true, true};
  if (name == "tree") return {2 * big_l, 0, big_l, big_l, true, true};
  if (name == "butterfly") return {l + 2 * folded, 0, l + folded, l + folded, true, true};
  if (name == "halving-doubling") {
    return {2 * l + 2 * folded, 0, 2 * (q - 1) / q + folded, (q - 1) / q + folded, true, true};
  }
  if (name == "circulant") return {2 * big_l, 0, 2 * share, share, false, false};
  return {2 * (p - 1), 0, 2 * share, share, false, false};
}

TEST_P(EveryAlgorithm, AgreesWithTheMasterTable) {
  const auto& [algorithm, p] = GetParam();
  if (algorithm->collective != Collective::allreduce || p < 3) return;  // the table's p
  const Verdict verdict = prove(*algorithm, p);
  const Row row = literature(algorithm->name, p);
  EXPECT_EQ(verdict.rounds, row.rounds);
  if (row.multiport > 0) {
    EXPECT_EQ(verdict.rounds_multiport, row.multiport);
  }
  EXPECT_NEAR(verdict.counts.sent.value(), row.sent, 1e-12);
  EXPECT_NEAR(verdict.counts.reduced.value(), row.reduced, 1e-12);
  EXPECT_EQ(verdict.ordered, row.ordered);
  EXPECT_EQ(verdict.position_independent, row.position_independent);
}

// Which levels hold is part of what users are told.
TEST_P(EveryAlgorithm, HoldsTheLevelsOfTheTable) {
  const auto& [algorithm, p] = GetParam();
  const Levels levels = derive_levels(*algorithm, {.nranks = p});
  EXPECT_TRUE(levels.fast);
  if (p <= 2 || !reduces(algorithm->collective)) {
    EXPECT_TRUE(levels.layout && levels.canonical && levels.exact);
    return;
  }
  const std::string name = algorithm->name;
  const bool in_turn = name == "ring" || name == "circulant";
  EXPECT_EQ(levels.layout, !in_turn);
  const bool at_once = name == "master-worker" || name == "all-to-all" || name == "two-shot" ||
                       name == "round-robin" || name == "flat" || name == "direct";
  // A scan in which the last rank alone gets more than two contributions from one that has two.
  const bool of_two = algorithm->collective == Collective::exscan && p == 3;
  EXPECT_EQ(levels.exact, at_once || of_two);
  if (at_once || name == "butterfly" || name == "halving-doubling") {
    EXPECT_TRUE(levels.canonical);
  }
  if (in_turn) {
    EXPECT_FALSE(levels.canonical);
  }
}

// Which algorithms give equal bits is part of what users are told.
TEST(TreeIds, AreEqualForEqualTreesOnly) {
  for (uint32_t p = 3; p <= most_ranks; ++p) {
    std::map<std::string, std::string> tree;
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective == Collective::allreduce) {
        tree[algorithm.name] = prove(algorithm, p).tree;
      }
    }
    EXPECT_EQ(tree["ring"], "") << "has no single tree";
    EXPECT_EQ(tree["master-worker"], tree["all-to-all"]);
    EXPECT_EQ(tree["master-worker"], tree["two-shot"]);
    EXPECT_EQ(tree["master-worker"], tree["round-robin"]);
    EXPECT_EQ(tree["butterfly"], tree["halving-doubling"]);
    // The rank counts that the literature lists for binomial and recursive doubling.
    const bool listed = p == 3 || p == 4 || p == 6 || p == 7 || p == 8 || p == 12 || p == 14 ||
                        p == 15 || p == 16 || p == 24 || p == 28 || p == 30 || p == 31 || p == 32;
    if (p <= 33) {
      EXPECT_EQ(tree["tree"] == tree["butterfly"], listed) << p;
    }
    EXPECT_EQ(tree["master-worker"] == tree["tree"], p == 3) << p;
  }
}

}  // namespace
}  // namespace tutti::schedule
