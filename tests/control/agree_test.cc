#include "lib/control/agree.h"

#include <gtest/gtest.h>

#include "lib/base/clock.h"
#include "tests/support/thread_exchange.h"

namespace tutti {
namespace {

using testing::on_threads;
using testing::ThreadExchange;
using testing::ThreadExchangeGroup;

struct Outcome {
  Status status;
  std::vector<std::string> texts;
};

// What each of as many ranks is told of what all of them say.
std::vector<Outcome> agree_all(const std::vector<Status>& said) {
  const auto group = std::make_shared<ThreadExchangeGroup>(int(said.size()));
  std::vector<Outcome> outcomes(said.size());
  on_threads(int(said.size()), [&](int rank) {
    ThreadExchange exchange(group, rank);
    Outcome& one = outcomes[size_t(rank)];
    const std::string text(size_t(rank), char('a' + rank));  // rank 0's is empty
    one.status =
        agree_on(exchange, said[size_t(rank)], text, deadline_after_ms(20'000), &one.texts);
  });
  return outcomes;
}

TEST(Agree, WhereAllAreWellEachHasTheTextsOfAll) {
  for (const Outcome& one : agree_all({{}, {}, {}})) {
    EXPECT_TRUE(one.status.ok());
    EXPECT_EQ(one.texts, (std::vector<std::string>{"", "b", "cc"}));
  }
}

TEST(Agree, AnErrorIsNamedToTheOthersWithItsRank) {
  const auto outcomes = agree_all({{}, {}, {TUTTI_SYSTEM, "cannot do it"}});
  EXPECT_EQ(outcomes[2].status.text(), "cannot do it");
  for (const size_t rank : {0u, 1u}) {
    EXPECT_EQ(outcomes[rank].status.code(), TUTTI_SYSTEM);
    EXPECT_EQ(outcomes[rank].status.rank(), 2);
    EXPECT_EQ(outcomes[rank].status.text(), "rank 2: cannot do it");
  }
}

TEST(Agree, NothingThatATerminalWouldObeyIsShown) {
  const auto outcomes = agree_all({{}, {TUTTI_SYSTEM, "no\x1b[2J\nroom \x7f"}});
  EXPECT_EQ(outcomes[0].status.text(), "rank 1: no [2J room  ");
}

TEST(Agree, AnErrorAboutAnotherRankGivesWayToThatRanksOwn) {
  const auto outcomes = agree_all({{TUTTI_PEER_FAILED, "rank 1 has gone", 1},
                                   {TUTTI_PEER_FAILED, "rank 2 has gone", 2},
                                   {TUTTI_SYSTEM, "cannot do it"}});
  for (const size_t rank : {0u, 1u}) {
    EXPECT_EQ(outcomes[rank].status.code(), TUTTI_SYSTEM);
    EXPECT_EQ(outcomes[rank].status.rank(), 2);
  }
}

TEST(Agree, AnErrorAboutARankThatIsWellStays) {
  for (const Outcome& one : agree_all({{TUTTI_CORRUPT, "rank 1 is odd", 1}, {}, {}})) {
    EXPECT_EQ(one.status.code(), TUTTI_CORRUPT);
  }
}

}  // namespace
}  // namespace tutti
