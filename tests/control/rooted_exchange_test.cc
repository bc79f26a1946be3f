// What ranks are told between two all-gathers, while they wait for each other by other means.
#include "lib/control/rooted_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "lib/base/clock.h"
#include "lib/control/wire.h"
#include "tests/support/thread_exchange.h"

namespace tutti {
namespace {

using testing::on_threads;

std::vector<std::unique_ptr<RootedExchange>> star(int nranks) {
  std::vector<FrameChannel> of_root(size_t{1});
  std::vector<std::unique_ptr<RootedExchange>> exchanges(size_t{1});
  for (int rank = 1; rank < nranks; ++rank) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    of_root.emplace_back(Fd(ends[0]), wire::most_exchange_bytes);
    std::vector<FrameChannel> own;
    own.emplace_back(Fd(ends[1]), wire::most_exchange_bytes);
    exchanges.push_back(
        std::make_unique<RootedExchange>(rank, nranks, 7, std::move(own), ns_of_ms(1500)));
  }
  exchanges[0] = std::make_unique<RootedExchange>(0, nranks, 7, std::move(of_root), ns_of_ms(1500));
  return exchanges;
}

// Looks as ranks do that wait for each other, until there is news.
Status look_for_news(Exchange& exchange) {
  const uint64_t deadline_ns = deadline_after_ms(10'000);
  Status news;
  while (news.ok() && now_ns() < deadline_ns) {
    usleep(1000);
    news = exchange.look();
  }
  return news;
}

TEST(RootedExchange, AnAlarmReachesAllAndEndsIt) {
  for (int alarmed = 0; alarmed < 4; ++alarmed) {
    const auto exchanges = star(4);
    on_threads(4, [&](int rank) {
      Exchange& exchange = *exchanges[size_t(rank)];
      std::vector<std::string> all;
      ASSERT_TRUE(exchange.allgather("x", deadline_after_ms(10'000), &all).ok());
      if (rank == alarmed) exchange.alarm({TUTTI_SYSTEM, "cannot do it", rank});
      const Status news = look_for_news(exchange);
      EXPECT_EQ(news.code(), TUTTI_SYSTEM) << news.text();
      EXPECT_EQ(news.text(), "cannot do it");
      EXPECT_EQ(news.rank(), alarmed);
      EXPECT_EQ(exchange.allgather("y", deadline_after_ms(10'000), &all).code(), TUTTI_SYSTEM);
    });
  }
}

// Rank 1 does not look: it is in the next all-gather already.
TEST(RootedExchange, AnAlarmReachesWhoWaitsInTheNextAllGather) {
  const auto exchanges = star(3);
  on_threads(3, [&](int rank) {
    Exchange& exchange = *exchanges[size_t(rank)];
    std::vector<std::string> all;
    ASSERT_TRUE(exchange.allgather("x", deadline_after_ms(10'000), &all).ok());
    if (rank == 2) {
      usleep(50'000);
      exchange.alarm({TUTTI_SYSTEM, "cannot do it", rank});
    }
    const Status news = rank == 1 ? exchange.allgather("y", deadline_after_ms(10'000), &all)
                                  : look_for_news(exchange);
    EXPECT_EQ(news.code(), TUTTI_SYSTEM) << news.text();
    EXPECT_EQ(news.rank(), 2);
  });
}

TEST(RootedExchange, WhoLooksTakesNothingFromTheNextAllGather) {
  const auto exchanges = star(3);
  on_threads(3, [&](int rank) {
    Exchange& exchange = *exchanges[size_t(rank)];
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string> all;
      // The others' texts of the next all-gather come meanwhile.
      for (int i = 0; rank == 0 && i < 5; ++i) {
        EXPECT_TRUE(exchange.look().ok());
        usleep(500);
      }
      const std::string mine = std::to_string(10 * round + rank);
      const Status ended = exchange.allgather(mine, deadline_after_ms(10'000), &all);
      ASSERT_TRUE(ended.ok()) << ended.text();
      for (int r = 0; r < 3; ++r) EXPECT_EQ(all[size_t(r)], std::to_string(10 * round + r));
    }
  });
}

TEST(RootedExchange, ARankThatHasGoneIsNamedToAllWhoLook) {
  auto exchanges = star(3);
  on_threads(3, [&](int rank) {
    if (rank == 2) return exchanges[2].reset();
    const Status news = look_for_news(*exchanges[size_t(rank)]);
    EXPECT_EQ(news.code(), TUTTI_PEER_FAILED) << news.text();
    EXPECT_EQ(news.rank(), 2);
  });
}

// All wait for rank 2.
TEST(RootedExchange, ARankThatGoesWhenItHasDoneItsPartIsNamed) {
  auto exchanges = star(4);
  on_threads(4, [&](int rank) {
    std::vector<std::string> all;
    if (rank == 1) {
      // A deadline that is over: it sends its text, and goes.
      EXPECT_FALSE(exchanges[1]->allgather("x", 0, &all).ok());
      return exchanges[1].reset();
    }
    const uint64_t begun_ns = now_ns();
    const Status news =
        rank == 2 ? look_for_news(*exchanges[2])
                  : exchanges[size_t(rank)]->allgather("x", deadline_after_ms(10'000), &all);
    EXPECT_EQ(news.code(), TUTTI_PEER_FAILED) << news.text();
    EXPECT_EQ(news.rank(), 1);
    EXPECT_LT(now_ns() - begun_ns, 5'000'000'000u);
  });
}

// Of two ranks one, with what the other has sent before.
Status gather_after(int rank, wire::Type type, uint64_t epoch, std::string_view payload) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  FrameChannel peer(Fd(ends[0]), wire::most_exchange_bytes);
  wire::Header header;
  header.type = type;
  header.comm = 7;
  header.epoch = epoch;
  header.src = uint16_t(1 - rank);
  peer.queue(header, payload);
  EXPECT_TRUE(peer.flush());
  std::vector<FrameChannel> own(rank == 0 ? 1 : 0);
  own.emplace_back(Fd(ends[1]), wire::most_exchange_bytes);
  std::vector<std::string> all;
  return RootedExchange(rank, 2, 7, std::move(own), ns_of_ms(1500))
      .allgather("x", deadline_after_ms(10'000), &all);
}

TEST(RootedExchange, AnErrorThatMakesNoSenseNamesWhoSentIt) {
  for (const int rank : {0, 1}) {
    const Status ended = gather_after(rank, wire::Type::abort, 0, "cut");
    EXPECT_EQ(ended.code(), TUTTI_CORRUPT);
    EXPECT_EQ(ended.rank(), 1 - rank);
    EXPECT_TRUE(ended.text().starts_with(rank == 0 ? "from rank 1: " : "from rank 0: "))
        << ended.text();
  }
}

TEST(RootedExchange, WhatRank0SaysMustHaveTheOwnText) {
  using namespace std::string_literals;
  EXPECT_TRUE(gather_after(1, wire::Type::exchange, 1, "\0\0\0\0\1\0\0\0x"s).ok());
  for (const std::string& other : {"\0\0\0\0\1\0\0\0y"s, "\1\0\0\0x\0\0\0\0"s}) {
    const Status ended = gather_after(1, wire::Type::exchange, 1, other);
    EXPECT_EQ(ended.code(), TUTTI_CORRUPT) << ended.text();
    EXPECT_EQ(ended.rank(), 0);
  }
}

}  // namespace
}  // namespace tutti
