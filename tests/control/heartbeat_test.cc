#include "lib/control/heartbeat.h"

#include <gtest/gtest.h>

#include <utility>

namespace tutti {
namespace {

constexpr uint64_t ms = 1'000'000;

TEST(Heartbeat, AsksAndLooksSoOftenThatALostHostIsFoundWithinTheLimit) {
  const Heartbeat heartbeat(1500 * ms);
  EXPECT_EQ(heartbeat.look_period_ns(), 50 * ms);
  EXPECT_EQ(heartbeat.ask_period_ns(), 250 * ms);
  // The cut may come just after an answer, and the last look just before the time.
  const uint64_t least = 1500 * ms - heartbeat.ask_period_ns() - 2 * heartbeat.look_period_ns();
  EXPECT_TRUE(heartbeat.is_lost({true, 2}, least));
}

TEST(Heartbeat, SaysLostWhereTheKernelHasAskedAgainAndAgainAndNeverAfterTimeAlone) {
  const Heartbeat heartbeat(1500 * ms);
  EXPECT_FALSE(heartbeat.is_lost({true, 3}, 1049 * ms));
  EXPECT_TRUE(heartbeat.is_lost({true, 2}, 1050 * ms));
  // This host was suspended for a minute, and its kernel has just begun to ask again.
  EXPECT_FALSE(heartbeat.is_lost({true, 0}, 60'000 * ms));
  EXPECT_FALSE(heartbeat.is_lost({true, 1}, 60'000 * ms));
  EXPECT_FALSE(heartbeat.is_lost({false, 2}, 60'000 * ms)) << "it has answered";
}

TEST(Heartbeat, SuspectsThisHostTooOnceAPeerDoesNotAnswer) {
  const Heartbeat heartbeat(1500 * ms);
  EXPECT_FALSE(heartbeat.suspects({true, 1}, 374 * ms));
  EXPECT_TRUE(heartbeat.suspects({true, 1}, 375 * ms));
  EXPECT_FALSE(heartbeat.suspects({true, 0}, 1000 * ms)) << "it may be far away";
  EXPECT_FALSE(Heartbeat::is_silent({false, 1}));
  EXPECT_TRUE(Heartbeat::is_silent({true, 1}));
}

TEST(Heartbeat, AsksAgainOnceItHasAnAnswerAndCountsFromTheFirstQuestionWithoutOne) {
  const Heartbeat heartbeat(1500 * ms);
  Inquiry inquiry;
  EXPECT_TRUE(heartbeat.take(inquiry, {false, 0}, 10'000 * ms));
  inquiry.ask(10'000 * ms);
  EXPECT_FALSE(heartbeat.take(inquiry, {true, 0}, 10'050 * ms)) << "it is on its way";
  EXPECT_FALSE(heartbeat.take(inquiry, {false, 0}, 10'100 * ms)) << "it has just answered";
  EXPECT_TRUE(heartbeat.take(inquiry, {false, 0}, 10'250 * ms));
  inquiry.ask(10'250 * ms);
  for (uint64_t now = 10'300 * ms; now < 11'300 * ms; now += 50 * ms)
    EXPECT_FALSE(heartbeat.take(inquiry, {true, 1}, now));
  EXPECT_EQ(inquiry.asked_ns, 10'250 * ms);
  // Nobody has looked for a while, in which it may have answered and have been asked something
  // else.
  EXPECT_FALSE(heartbeat.take(inquiry, {true, 1}, 12'000 * ms));
  EXPECT_EQ(inquiry.asked_ns, 12'000 * ms);
}

// Where acknowledgements take longer than the time between two questions, something is always on
// its way.
TEST(Heartbeat, CountsFromTheLastAcknowledgement) {
  const Heartbeat heartbeat(1500 * ms);
  Inquiry inquiry;
  inquiry.ask(1'000 * ms);
  for (uint64_t now = 1'050 * ms; now < 60'000 * ms; now += 50 * ms) {
    heartbeat.take(inquiry, {true, 0, now}, now);
    EXPECT_EQ(inquiry.asked_ns, now);
  }
  const uint64_t last = inquiry.asked_ns;
  for (uint64_t now = last + 50 * ms; now <= last + 1'100 * ms; now += 50 * ms)
    heartbeat.take(inquiry, {true, 2, last}, now);
  EXPECT_EQ(inquiry.asked_ns, last);
  EXPECT_TRUE(heartbeat.is_lost({true, 2, last}, 1'100 * ms));
}

// A network that is full drops the question and what is sent again of it, but data goes on.
TEST(Heartbeat, TakesDataThatGoesOnForAnAnswer) {
  const Heartbeat heartbeat(1500 * ms);
  Inquiry inquiry;
  inquiry.ask(1'000 * ms);
  const auto look = [&](uint64_t now, uint64_t moved) {
    const Contact contact{true, 4, 10, moved};
    const bool silent = Heartbeat::is_silent(contact, inquiry);
    heartbeat.take(inquiry, contact, now);
    return std::pair(silent, heartbeat.is_lost(contact, now - inquiry.asked_ns));
  };
  for (uint64_t now = 1'050 * ms; now < 60'000 * ms; now += 50 * ms)
    EXPECT_EQ(look(now, now), std::pair(false, false)) << now / ms;
  const uint64_t last = inquiry.looked_ns;
  for (uint64_t now = last + 50 * ms; now < last + 1'050 * ms; now += 50 * ms)
    EXPECT_EQ(look(now, last), std::pair(true, false)) << (now - last) / ms;
  EXPECT_EQ(look(last + 1'050 * ms, last), std::pair(true, true));
}

TEST(Heartbeat, FollowsItsLimit) {
  const Heartbeat patient(86'400'000 * ms), hasty(100 * ms);
  EXPECT_FALSE(patient.is_lost({true, 200}, 60'000'000 * ms));
  EXPECT_TRUE(patient.is_lost({true, 200}, 61'000'000 * ms));
  EXPECT_FALSE(hasty.is_lost({true, 2}, 69 * ms));
  EXPECT_TRUE(hasty.is_lost({true, 2}, 70 * ms));
}

}  // namespace
}  // namespace tutti
