// The limit over sockets: ranks that never come, cannot be reached, go silent or end.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "bench/error.h"
#include "bench/launch.h"
#include "bench/limit.h"

namespace tutti::bench {
namespace {

const LimitOf allreduce{"allreduce", 0, false};
constexpr std::chrono::milliseconds patience(200);
constexpr size_t bytes = size_t(8) << 20;  // more than sockets take in

void on_two_ranks(const std::function<void(const Rank&)>& body) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK) << tutti_last_error();
  run_threads(2, [&](int rank) { body(Rank::from_id(id, rank, 2)); });
}

// The sentence with which it fails; "" where it does not.
std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

// What a rank says to the others before they connect, of a port at which nobody listens.
void pretend_to_connect(const Rank& me) {
  const uint16_t port = 1;
  uint16_t ports[2];
  me.gather(&port, ports, sizeof port);
  me.sum(1);
}

TEST(LimitOfSockets, BothRanksExchange) {
  on_two_ranks([](const Rank& me) {
    const auto ways = socket_limits(me, allreduce, std::chrono::seconds(20));
    ASSERT_EQ(ways.size(), 1u);
    ways.front().limit->run(bytes);
  });
}

TEST(LimitOfSockets, ARankThatNeverConnectsIsNamed) {
  on_two_ranks([](const Rank& me) {
    if (me.first()) return pretend_to_connect(me);
    EXPECT_EQ(
        failure_of([&] { socket_limits(me, allreduce, patience); }),
        "measuring the limit of sockets: waiting for rank 0 to connect: Connection timed out");
  });
}

// As in another network namespace.
TEST(LimitOfSockets, ThereIsNoneOfARankThatCannotBeReached) {
  on_two_ranks([](const Rank& me) {
    if (me.first())
      EXPECT_TRUE(socket_limits(me, allreduce, patience).empty());
    else
      pretend_to_connect(me);
  });
}

TEST(LimitOfSockets, ASilentNeighbourIsWaitedForOnlySoLong) {
  on_two_ranks([](const Rank& me) {
    const auto ways = socket_limits(me, allreduce, patience);
    ASSERT_EQ(ways.size(), 1u);
    if (me.first()) {
      EXPECT_EQ(failure_of([&] { ways.front().limit->run(bytes); }),
                "measuring the limit of sockets: waiting for a neighbour: Connection timed out");
    }
    me.barrier();
  });
}

TEST(LimitOfSockets, ANeighbourThatEndsIsNoticed) {
  on_two_ranks([](const Rank& me) {
    auto ways = socket_limits(me, allreduce, std::chrono::seconds(20));
    ASSERT_EQ(ways.size(), 1u);
    if (!me.first()) return ways.clear();
    EXPECT_NE(failure_of([&] { ways.front().limit->run(bytes); }), "");
  });
}

}  // namespace
}  // namespace tutti::bench
