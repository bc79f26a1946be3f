#include "lib/control/bootstrap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "lib/base/clock.h"
#include "lib/control/address.h"
#include "lib/control/bytes.h"
#include "lib/control/callback_exchange.h"
#include "lib/control/rendezvous_id.h"
#include "lib/control/secret.h"
#include "lib/control/socket.h"
#include "tests/control/stranger.h"
#include "tests/support/thread_exchange.h"

namespace tutti {
namespace {

using testing::on_threads;
using testing::Stranger;

struct Joined {
  Status status;
  std::unique_ptr<Exchange> exchange;
};

// What rank r of the job says, where it differs from the others.
using Place = std::pair<int, int>;  // rank, nranks

std::vector<Joined> join_all(Rendezvous& rendezvous, const std::vector<Place>& places,
                             int64_t limit_ms = 20'000) {
  std::vector<Joined> joined(places.size());
  on_threads(int(places.size()), [&](int i) {
    const auto [rank, nranks] = places[size_t(i)];
    Fd listener = rank == 0 ? std::move(rendezvous.listener) : Fd();
    Joined& one = joined[size_t(i)];
    one.status = join_rendezvous(rendezvous.id, std::move(listener), rank, nranks,
                                 deadline_after_ms(limit_ms), ns_of_ms(1500), &one.exchange);
  });
  return joined;
}

std::vector<Place> everyone(int nranks) {
  std::vector<Place> places;
  for (int rank = 0; rank < nranks; ++rank) places.emplace_back(rank, nranks);
  return places;
}

Address address_of(const Rendezvous& rendezvous) {
  RendezvousId id;
  EXPECT_TRUE(RendezvousId::parse(rendezvous.id, &id).ok());
  return id.address;
}

class BootstrapOf : public ::testing::TestWithParam<int> {};

TEST_P(BootstrapOf, AllGatherTheirTextsAndHoldOneKey) {
  const int nranks = GetParam();
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  std::vector<Joined> joined = join_all(rendezvous, everyone(nranks));
  for (const Joined& one : joined) ASSERT_TRUE(one.status.ok()) << one.status.text();
  RendezvousId id;
  ASSERT_TRUE(RendezvousId::parse(rendezvous.id, &id).ok());
  on_threads(nranks, [&](int rank) {
    Exchange& exchange = *joined[size_t(rank)].exchange;
    EXPECT_EQ(exchange.rank(), rank);
    EXPECT_EQ(exchange.nranks(), nranks);
    EXPECT_EQ(exchange.key(), joined[0].exchange->key());
    EXPECT_NE(exchange.key(), id.key) << "the key of the id must not be the communicator's";
    if (nranks > 1) {
      EXPECT_EQ(exchange.local_address(), "127.0.0.1");
    }
    for (const size_t bytes : {size_t(0), size_t(1), size_t(5000), size_t(64 << 10)}) {
      std::vector<std::string> all;
      const std::string mine(rank % 3 == 1 ? 0 : bytes, char('a' + rank));
      const Status ended = exchange.allgather(mine, deadline_after_ms(20'000), &all);
      ASSERT_TRUE(ended.ok()) << ended.text();
      ASSERT_EQ(all.size(), size_t(nranks));
      for (int r = 0; r < nranks; ++r) {
        ASSERT_EQ(all[size_t(r)], std::string(r % 3 == 1 ? 0 : bytes, char('a' + r)));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, BootstrapOf, ::testing::Range(1, 10));

TEST(Bootstrap, RanksThatDisagreeOnTheirNumberAreAllTold) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  // Rank 3 is missing: without the error the others would wait for it until the deadline.
  const auto joined = join_all(rendezvous, {{0, 4}, {1, 4}, {2, 3}});
  for (const Joined& one : joined) EXPECT_FALSE(one.status.ok());
  for (const size_t i : {size_t(0), size_t(2)}) {
    EXPECT_EQ(joined[i].status.code(), TUTTI_MISMATCH) << joined[i].status.text();
    EXPECT_EQ(joined[i].status.rank(), 2);
    EXPECT_NE(joined[i].status.text().find("3 ranks"), std::string::npos);
  }
}

TEST(Bootstrap, ARankThatComesTwiceIsAnErrorOnAllThatAreThere) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  const auto joined = join_all(rendezvous, {{0, 4}, {1, 4}, {1, 4}});
  for (const Joined& one : joined) {
    EXPECT_EQ(one.status.code(), TUTTI_MISMATCH) << one.status.text();
    EXPECT_EQ(one.status.rank(), 1);
  }
}

TEST(Bootstrap, ARankBeyondTheLastIsRefusedWithASentence) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  std::unique_ptr<Exchange> exchange;
  for (const auto& [rank, nranks] : {Place(4, 4), {-1, 4}, {0, 0}, {0, 100'000}}) {
    const Status status = join_rendezvous(rendezvous.id, {}, rank, nranks, deadline_after_ms(1000),
                                          ns_of_ms(1500), &exchange);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << rank << " of " << nranks;
  }
}

TEST(Bootstrap, ATimeoutNamesWhoIsMissing) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  const auto joined = join_all(rendezvous, {{0, 4}, {1, 4}}, 300);
  for (const Joined& one : joined) {
    EXPECT_EQ(one.status.code(), TUTTI_TIMEOUT);
    EXPECT_NE(one.status.text().find("ranks 2, 3"), std::string::npos) << one.status.text();
  }
}

TEST(Bootstrap, ARankThatDiesInTheMiddleIsNamedToTheOthers) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  auto joined = join_all(rendezvous, everyone(3));
  joined[2].exchange.reset();
  on_threads(2, [&](int rank) {
    std::vector<std::string> all;
    const Status ended =
        joined[size_t(rank)].exchange->allgather("x", deadline_after_ms(10'000), &all);
    EXPECT_EQ(ended.code(), TUTTI_PEER_FAILED) << ended.text();
    EXPECT_EQ(ended.rank(), 2);
  });
}

TEST(Bootstrap, WhoHoldsAnotherKeyGetsAuthAndTheJobIsUnharmed) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  RendezvousId forged;
  ASSERT_TRUE(RendezvousId::parse(rendezvous.id, &forged).ok());
  forged.key[0] ^= 1;
  std::thread outsider([&] {
    std::unique_ptr<Exchange> exchange;
    const Status status = join_rendezvous(forged.encode(), {}, 1, 3, deadline_after_ms(20'000),
                                          ns_of_ms(1500), &exchange);
    EXPECT_EQ(status.code(), TUTTI_AUTH) << status.text();
  });
  std::vector<Joined> joined(3);
  on_threads(3, [&](int rank) {
    // Rank 2 comes when the outsider has given up.
    if (rank == 2) outsider.join();
    Fd listener = rank == 0 ? std::move(rendezvous.listener) : Fd();
    joined[size_t(rank)].status =
        join_rendezvous(rendezvous.id, std::move(listener), rank, 3, deadline_after_ms(20'000),
                        ns_of_ms(1500), &joined[size_t(rank)].exchange);
  });
  for (const Joined& one : joined) EXPECT_TRUE(one.status.ok()) << one.status.text();
}

TEST(Bootstrap, StrangersOfEveryKindNeitherDelayNorHarmTheJob) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  const Address address = address_of(rendezvous);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 25; ++i) {
    strangers.emplace_back(address, Stranger::Kind::garbage);
    strangers.emplace_back(address, Stranger::Kind::silent);
    strangers.emplace_back(address, Stranger::Kind::right_magic);
    strangers.emplace_back(address, Stranger::Kind::half_a_hello);
  }
  const uint64_t start = now_ns();
  const auto joined = join_all(rendezvous, everyone(5));
  EXPECT_LT(now_ns() - start, 1'500'000'000u);
  for (const Joined& one : joined) EXPECT_TRUE(one.status.ok()) << one.status.text();
  for (Stranger& one : strangers) EXPECT_TRUE(one.was_closed_without_an_answer());
}

TEST(Bootstrap, AStrangerWhoSpeaksSlowlyOrNotAtAllIsOutWithinTwoSeconds) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  const Address address = address_of(rendezvous);
  std::thread rank0([&] {
    std::unique_ptr<Exchange> exchange;
    const Status status = join_rendezvous(rendezvous.id, std::move(rendezvous.listener), 0, 2,
                                          deadline_after_ms(2600), ns_of_ms(1500), &exchange);
    EXPECT_EQ(status.code(), TUTTI_TIMEOUT);
    EXPECT_NE(status.text().find("refused"), std::string::npos) << status.text();
  });
  const uint64_t start = now_ns();
  Stranger silent(address, Stranger::Kind::silent), slow(address, Stranger::Kind::silent);
  while (slow.send_one_byte_of_a_hello() && now_ns() - start < 5'000'000'000u) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(slow.was_closed_without_an_answer());
  EXPECT_TRUE(silent.was_closed_without_an_answer());
  EXPECT_LT(now_ns() - start, 2'400'000'000u);
  rank0.join();
}

TEST(Bootstrap, AnIdThatWasNotMadeByTuttiIsInvalid) {
  std::unique_ptr<Exchange> exchange;
  tutti_unique_id id{};
  EXPECT_EQ(
      join_rendezvous(id, {}, 1, 2, deadline_after_ms(1000), ns_of_ms(1500), &exchange).code(),
      TUTTI_INVALID);
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  for (size_t i = 0; i < sizeof(id.bytes); ++i) {
    id = rendezvous.id;
    id.bytes[i] ^= 0x10;
    ASSERT_EQ(
        join_rendezvous(id, {}, 1, 2, deadline_after_ms(1000), ns_of_ms(1500), &exchange).code(),
        TUTTI_INVALID)
        << i;
  }
}

TEST(Bootstrap, WithoutRank0ItFailsAtOnce) {
  Rendezvous rendezvous;
  ASSERT_TRUE(open_rendezvous("", &rendezvous).ok());
  rendezvous.listener.reset();
  std::unique_ptr<Exchange> exchange;
  const Status status = join_rendezvous(rendezvous.id, {}, 1, 2, deadline_after_ms(20'000),
                                        ns_of_ms(1500), &exchange);
  EXPECT_EQ(status.code(), TUTTI_PEER_FAILED) << status.text();
  EXPECT_EQ(status.rank(), 0);
}

TEST(Bootstrap, AtAFixedPlaceWhoIsEarlyWaitsForRank0) {
  // A port that was free a moment ago.
  Rendezvous probe;
  ASSERT_TRUE(open_rendezvous("", &probe).ok());
  const uint16_t port = address_of(probe).port();
  probe.listener.reset();
  const JobKey key{1, 2, 3};
  on_threads(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Rendezvous rendezvous;
    ASSERT_TRUE(open_rendezvous_at({"127.0.0.1", port, ""}, key, rank == 0,
                                   deadline_after_ms(10'000), &rendezvous)
                    .ok());
    std::unique_ptr<Exchange> exchange;
    const Status status = join_rendezvous(rendezvous.id, std::move(rendezvous.listener), rank, 3,
                                          deadline_after_ms(10'000), ns_of_ms(1500), &exchange);
    EXPECT_TRUE(status.ok()) << status.text();
  });
}

TEST(Bootstrap, WhereRank0ListensIsSaidIfOnlyItsOwnHostReachesIt) {
  Rendezvous rendezvous;
  Address free = Address::loopback();
  Fd listener;
  ASSERT_TRUE(listen_on(&free, &listener).ok());
  listener.reset();
  ASSERT_TRUE(open_rendezvous_at({"127.0.1.1", free.port(), ""}, {1}, true,
                                 deadline_after_ms(10'000), &rendezvous)
                  .ok());
  const auto joined = join_all(rendezvous, {{0, 2}}, 100);
  EXPECT_EQ(joined[0].status.code(), TUTTI_TIMEOUT);
  const std::string place = "127.0.1.1:" + std::to_string(free.port());
  EXPECT_NE(joined[0].status.text().find(place + ", where only ranks of its own host reach it"),
            std::string::npos)
      << joined[0].status.text();
}

TEST(Bootstrap, ListeningEverywhereOrOnWhatIsNotThereIsInvalid) {
  Rendezvous rendezvous;
  for (const char* name : {"0.0.0.0", "::", "no-such-interface"}) {
    const Status status = open_rendezvous(name, &rendezvous);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << name;
    EXPECT_NE(status.text().find("lo (127.0.0.1)"), std::string::npos) << status.text();
  }
  EXPECT_EQ(
      open_rendezvous_at({"0.0.0.0", 1234, ""}, {}, true, deadline_after_ms(10'000), &rendezvous)
          .code(),
      TUTTI_INVALID);
  ASSERT_TRUE(open_rendezvous("lo", &rendezvous).ok());
  EXPECT_EQ(address_of(rendezvous).host(), "127.0.0.1");
}

TEST(Bootstrap, WithoutFileDescriptorsTheLimitIsNamed) {
  const pid_t child = fork();  // whose limit never rises again
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    Rendezvous rendezvous;
    const Status status = open_rendezvous("", &rendezvous);
    EXPECT_EQ(status.code(), TUTTI_SYSTEM);
    EXPECT_NE(status.text().find("file descriptors"), std::string::npos) << status.text();
    _exit(HasFailure() ? 1 : 0);
  }
  int ended = -1;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
}

TEST(KeyFile, OnlyAPrivateFileOf32BytesServes) {
  const std::string path = ::testing::TempDir() + "tutti_key_" + std::to_string(getpid());
  JobKey key;
  EXPECT_EQ(read_key_file(path, &key).code(), TUTTI_SYSTEM);
  std::ofstream(path) << std::string(32, 'k');
  chmod(path.c_str(), 0644);
  EXPECT_EQ(read_key_file(path, &key).code(), TUTTI_AUTH);
  chmod(path.c_str(), 0600);
  EXPECT_TRUE(read_key_file(path, &key).ok());
  EXPECT_EQ(key[31], 'k');
  for (const size_t bytes : {size_t(0), size_t(31), size_t(33)}) {
    std::ofstream(path) << std::string(bytes, 'k');
    EXPECT_EQ(read_key_file(path, &key).code(), TUTTI_AUTH) << bytes;
  }
  unlink(path.c_str());
}

// ---------------------------------------------------------------- the caller's own all-gather

struct CallbackContext {
  testing::ThreadExchange* exchange;
  int result = 0;
  int calls = 0;
};

int gather_by_threads(const void* mine, void* all, size_t bytes, void* context) {
  auto* callback = static_cast<CallbackContext*>(context);
  ++callback->calls;
  if (callback->result != 0) return callback->result;
  std::vector<std::string> texts;
  const Status ended = callback->exchange->allgather({static_cast<const char*>(mine), bytes},
                                                     deadline_after_ms(10'000), &texts);
  if (!ended.ok()) return -1;
  auto* to = static_cast<char*>(all);
  for (size_t i = 0; i < texts.size(); ++i) std::memcpy(to + i * bytes, texts[i].data(), bytes);
  return 0;
}

TEST(CallbackExchange, TextsOfAnyLengthAndOneKeyGoThroughFixedBlocks) {
  auto group = std::make_shared<testing::ThreadExchangeGroup>(4);
  std::vector<JobKey> keys(4);
  on_threads(4, [&](int rank) {
    testing::ThreadExchange threads(group, rank);
    CallbackContext context{&threads};
    std::unique_ptr<Exchange> exchange;
    ASSERT_TRUE(make_callback_exchange(gather_by_threads, &context, rank, 4, &exchange).ok());
    keys[size_t(rank)] = exchange->key();
    std::vector<std::string> all;
    ASSERT_TRUE(exchange->allgather("", 0, &all).ok());
    EXPECT_EQ(all, std::vector<std::string>(4));
    EXPECT_EQ(context.calls, 2);
    for (const auto& [step, calls] : {std::pair(100, 1), std::pair(169, 1), std::pair(170, 2)}) {
      context.calls = 0;
      ASSERT_TRUE(exchange->allgather(std::string(size_t(rank * step), 'r'), 0, &all).ok());
      for (size_t r = 0; r < 4; ++r) EXPECT_EQ(all[r], std::string(r * size_t(step), 'r'));
      EXPECT_EQ(context.calls, calls) << step;
    }
    // One rank says too much: an error on all.
    EXPECT_EQ(exchange->allgather(std::string(rank == 2 ? 70'000 : 1, 'x'), 0, &all).code(),
              TUTTI_INVALID);
  });
  for (const JobKey& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_NE(keys[0], JobKey{});
}

TEST(CallbackExchange, AFailingCallbackIsReportedWithItsNumber) {
  CallbackContext context{nullptr, 17};
  std::unique_ptr<Exchange> exchange;
  const Status status = make_callback_exchange(gather_by_threads, &context, 0, 2, &exchange);
  EXPECT_EQ(status.code(), TUTTI_SYSTEM);
  EXPECT_NE(status.text().find("17"), std::string::npos);
}

}  // namespace
}  // namespace tutti
