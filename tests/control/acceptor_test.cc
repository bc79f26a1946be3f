#include "lib/control/acceptor.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <utility>

#include "lib/base/clock.h"
#include "tests/control/stranger.h"

// What this thread does before it receives the next bytes; null: nothing.
static thread_local std::function<void()> before_recv;

// In place of the C library's, for the whole program.
extern "C" ssize_t recv(int fd, void* to, size_t bytes, int flags) {
  if (const auto first = std::exchange(before_recv, nullptr)) first();
  return ::syscall(SYS_recvfrom, fd, to, bytes, flags, nullptr, nullptr);
}

namespace tutti {
namespace {

using testing::Stranger;

constexpr uint64_t door_job = 7;
constexpr JobKey door_key{1, 2, 3};
constexpr auto door_purposes = uint8_t(uint8_t(Purpose::data) | uint8_t(Purpose::control));

struct Door {
  Address address = Address::loopback();
  Fd listener;

  Door() {
    const Status made = listen_on(&address, &listener);
    EXPECT_TRUE(made.ok()) << made.text();
  }
  Acceptor open(size_t expected) {
    return Acceptor(std::move(listener), door_key, door_purposes, door_job, 0, expected);
  }
  Destination from(int rank, Purpose purpose = Purpose::data) const {
    Destination to;
    to.address = address;
    to.from = Address::loopback();
    to.key = door_key;
    to.claim = {purpose, door_job, rank, 0, 1000};
    return to;
  }
};

void sleep_ms(long milliseconds) {
  const timespec time{0, milliseconds * 1'000'000};
  nanosleep(&time, nullptr);
}

// All come before the first is answered, so that all have greeted before the first is in, and
// between them more strangers than there are places.
TEST(AcceptorTest, MembersWhoHaveGreetedAreNeverTurnedOut) {
  constexpr int members = 150;
  Door door;
  std::vector<Caller> callers;
  std::vector<Stranger> strangers;
  for (int rank = 1; rank <= members; ++rank) {
    callers.emplace_back(door.from(rank));
    callers.back().advance(now_ns());
    strangers.emplace_back(door.address, Stranger::Kind::silent);
  }
  Acceptor acceptor = door.open(members);
  std::vector<Acceptor::Guest> guests;
  for (int i = 0; i < 20; ++i) {  // the callers are slow to answer
    ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
    sleep_ms(1);
  }
  EXPECT_EQ(acceptor.refused(), members - Acceptor::most_strangers);
  const uint64_t limit = deadline_after_ms(5000);
  for (size_t done = 0; done < callers.size() && now_ns() < limit;) {
    done = 0;
    for (Caller& caller : callers) {
      caller.advance(now_ns());
      ASSERT_NE(caller.state(), Caller::State::failed) << caller.error().text();
      done += caller.state() == Caller::State::done;
    }
    ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  }
  for (const Caller& caller : callers) EXPECT_EQ(caller.state(), Caller::State::done);
  EXPECT_EQ(acceptor.refused(), members - Acceptor::most_strangers);
  std::set<int> ranks;
  for (const Acceptor::Guest& guest : guests) ranks.insert(guest.claim().client);
  EXPECT_EQ(guests.size(), size_t(members));
  EXPECT_EQ(ranks.size(), size_t(members));
}

// However long a member that has greeted does not answer: it may be one of many on few processors.
TEST(AcceptorTest, AMemberMayBeSlow) {
  Door door;
  Caller caller(door.from(1));
  caller.advance(now_ns());
  Acceptor acceptor = door.open(1);
  std::vector<Acceptor::Guest> guests;
  const uint64_t late_ns = now_ns() + 10 * Acceptor::patience_ns;
  ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  ASSERT_TRUE(acceptor.advance(late_ns, &guests).ok());
  EXPECT_EQ(acceptor.due_ns(), never_ns);
  for (int i = 0; i < 200 && guests.empty(); ++i) {
    caller.advance(late_ns);
    ASSERT_TRUE(acceptor.advance(late_ns, &guests).ok());
    sleep_ms(1);
  }
  caller.advance(late_ns);
  EXPECT_EQ(caller.state(), Caller::State::done);
  EXPECT_EQ(acceptor.refused(), 0u);
}

// Turned out in the middle of the handshake, or after its last word: it was not admitted.
TEST(AcceptorTest, AMemberThatWasTurnedOutComesAgain) {
  Door door;
  Caller caller(door.from(1));
  const uint64_t limit = deadline_after_ms(10'000);
  for (const size_t hears : {size_t(0), size_t(128), size_t(128 + 32)}) {
    Handshake server = Handshake::server(door_key, door_purposes, door_job, 0, {});
    Fd socket;
    for (size_t heard = 0; heard < hears || !socket;) {
      ASSERT_LT(now_ns(), limit);
      caller.advance(now_ns());
      ASSERT_EQ(caller.state(), Caller::State::calling) << caller.error().text();
      if (!socket) socket = Fd(::accept4(door.listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
      if (!socket) continue;
      uint8_t bytes[128];
      const ssize_t got =
          ::recv(socket.get(), bytes, std::min(server.wants(), hears - heard), MSG_DONTWAIT);
      if (got <= 0) continue;
      heard += size_t(got);
      server.receive({bytes, size_t(got)});
      if (server.state() == Handshake::State::done) break;  // the admission is not sent
      const auto output = server.output();
      ASSERT_EQ(::send(socket.get(), output.data(), output.size(), 0), ssize_t(output.size()));
      server.sent(output.size());
    }
    if (hears == 128 + 32) {
      EXPECT_EQ(server.state(), Handshake::State::done);
    }
  }
  Acceptor acceptor = door.open(1);
  std::vector<Acceptor::Guest> guests;
  while (caller.state() == Caller::State::calling && now_ns() < limit) {
    caller.advance(now_ns());
    ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  }
  EXPECT_EQ(caller.state(), Caller::State::done) << caller.error().text();
  EXPECT_EQ(guests.size(), 1u);
}

// Somebody on the path has copied a member's hello.
TEST(AcceptorTest, ReplayedHellosAreBoundedAndKeepNobodyOut) {
  Door door;
  const Handshake copied = Handshake::client(door_key, door.from(1).claim, {{5}});
  std::vector<Fd> replays;
  for (int i = 0; i < 30; ++i) {
    replays.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(replays.back().get(), &door.address.any, door.address.length()), 0);
    ASSERT_EQ(::send(replays.back().get(), copied.output().data(), copied.output().size(), 0), 128);
  }
  Acceptor acceptor = door.open(4);
  std::vector<Acceptor::Guest> guests;
  ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  EXPECT_EQ(acceptor.refused(), 30u - 8u);
  std::vector<Caller> callers;
  for (int rank = 1; rank <= 4; ++rank) callers.emplace_back(door.from(rank));
  const uint64_t limit = deadline_after_ms(5000);
  while (guests.size() < 4 && now_ns() < limit) {
    for (Caller& caller : callers) caller.advance(now_ns());
    ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  }
  EXPECT_EQ(guests.size(), 4u);
}

// Who answers while the acceptor still looks for more is in before the next comes.
TEST(AcceptorTest, WhoIsAdmittedIsNotTurnedOutByReplays) {
  Door door;
  Caller caller(door.from(1));
  caller.advance(now_ns());
  const Handshake copied = Handshake::client(door_key, door.from(1).claim, {{5}});
  std::vector<Fd> replays;
  for (int i = 0; i < 4; ++i) {
    replays.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(replays.back().get(), &door.address.any, door.address.length()), 0);
    ASSERT_EQ(::send(replays.back().get(), copied.output().data(), copied.output().size(), 0), 128);
  }
  const std::function<void()> answer = [&] {
    caller.advance(now_ns());
    before_recv = answer;
  };
  before_recv = answer;
  Acceptor acceptor = door.open(1);
  std::vector<Acceptor::Guest> guests;
  const Status advanced = acceptor.advance(now_ns(), &guests);
  before_recv = nullptr;
  ASSERT_TRUE(advanced.ok()) << advanced.text();
  caller.advance(now_ns());
  EXPECT_EQ(caller.state(), Caller::State::done) << caller.error().text();
  EXPECT_EQ(guests.size(), 1u);
  EXPECT_EQ(acceptor.refused(), 2u);
}

// The ranks of one host have more connections than there are ports: a port chosen by connect() need
// be unique for its destination only.
TEST(AcceptorTest, CallingFromAnAddressTakesNoPortOfItsOwn) {
  Door door;
  Acceptor acceptor = door.open(1);
  std::vector<Acceptor::Guest> guests;
  Caller caller(door.from(1));
  const uint64_t limit = deadline_after_ms(5000);
  while (caller.state() == Caller::State::calling && now_ns() < limit) {
    caller.advance(now_ns());
    ASSERT_TRUE(acceptor.advance(now_ns(), &guests).ok());
  }
  ASSERT_EQ(caller.state(), Caller::State::done) << caller.error().text();
  const Fd socket = caller.take();
  int by_connect = 0;
  socklen_t length = sizeof(by_connect);
  getsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &by_connect, &length);
  EXPECT_EQ(by_connect, 1);
  EXPECT_EQ(local_address(socket.get()).host(), "127.0.0.1");
}

}  // namespace
}  // namespace tutti
