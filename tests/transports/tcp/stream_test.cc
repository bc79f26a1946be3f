// What only the tcp transport does: frames, staging, and the port while connections are made.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <random>

#include "lib/control/acceptor.h"
#include "lib/control/agree.h"
#include "lib/control/wire.h"
#include "tests/control/stranger.h"
#include "tests/support/wrapped_exchange.h"
#include "tests/transports/tcp/ranks.h"
#include "transports/stream/mesh.h"
#include "transports/tcp/stream.h"

namespace tutti {
namespace {

using testing::mark_of;
using testing::on_links;
using testing::on_threads;
using testing::open_all;
using testing::recv_all;
using testing::send_all;
using testing::Stranger;
using testing::ThreadExchange;
using testing::ThreadExchangeGroup;

TEST(TcpStream, ElementsThatFramesTearApartArePutTogether) {
  on_links(2, [](int rank, Link& link) {
    constexpr size_t elements = 20'000;
    std::vector<uint64_t> data(elements);
    for (size_t i = 0; i < elements; ++i) data[i] = i * 0x9e3779b97f4a7c15u;
    link.begin(mark_of(1));
    std::mt19937 random(3);
    if (rank == 0) {
      const auto* bytes = reinterpret_cast<const char*>(data.data());
      for (size_t at = 0; at < elements * 8;) {  // every piece is a frame
        const size_t piece = std::min<size_t>(elements * 8 - at, 1 + random() % 21);
        ASSERT_TRUE(send_all(link, 1, bytes + at, piece).ok());
        at += piece;
      }
      return;
    }
    size_t seen = 0;
    const auto look = [&] {
      const auto bytes = link.try_peek(0, (elements - seen) * 8, 8);
      EXPECT_EQ(bytes.size() % 8, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 8, 0u);
      if (bytes.empty()) return false;
      EXPECT_EQ(std::memcmp(bytes.data(), data.data() + seen, bytes.size()), 0);
      const size_t used = 1 + random() % (bytes.size() / 8);
      link.consume(0, used * 8);
      seen += used;
      return true;
    };
    const Status ended =
        complete(link, Patience{100, 20}, 10'000'000'000u, look, [&] { return seen == elements; });
    ASSERT_TRUE(ended.ok()) << ended.text();
  });
}

// A frame of call 7, of which a peeked element takes the 2 bytes and more, then one that is wrong.
void expect_torn(uint64_t next_comm, uint32_t next_digest) {
  tcp::Stream stream(7, 0, 1, default_tuning);
  std::string text;
  for (const bool first : {true, false}) {
    wire::Header header;
    header.comm = first ? 7 : next_comm;
    header.src = 1;
    header.stream = first ? 0 : 2;
    header.digest = first ? 7 : next_digest;
    header.length = 2;
    const wire::HeaderBytes bytes = wire::encode(header);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append("ab");
  }
  struct Path final : tcp::EarlyPath {
    bool is_out() override { return true; }
    void post(wire::Type, std::string_view) override {}
    void look() override {}
    void want() override {}
  } path;
  stream.late()->begin(&path);
  ASSERT_TRUE(stream.late()->come(text));
  CallMark right, wrong;
  right.digest = 7;
  wrong.digest = 8;
  EXPECT_TRUE(stream.peek(right, 4, 4).empty());
  EXPECT_EQ(stream.corrupt().code(), TUTTI_CORRUPT);
  ASSERT_TRUE(stream.latest().has_value());
  EXPECT_EQ(stream.latest()->digest, right.digest);
  std::byte got[4];
  EXPECT_EQ(stream.receive(wrong, got, 4), 0u);
  EXPECT_EQ(stream.receive(right, got, 4), 2u);
  EXPECT_EQ(got[0], std::byte('a'));
}

TEST(TcpStream, AWrongFrameDoesNotTakeThePlaceOfATornElement) { expect_torn(8, 7); }

TEST(TcpStream, AFrameOfAnotherCallDoesNotEndATornElement) { expect_torn(7, 8); }

TEST(TcpStream, PeeksAndReceivesMayTakeTurnsInOneMessage) {
  on_links(2, [](int rank, Link& link) {
    std::vector<uint32_t> data(100'000);
    for (size_t i = 0; i < data.size(); ++i) data[i] = uint32_t(i * 2654435761u);
    link.begin(mark_of(1));
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, data.data(), data.size() * 4).ok());
      return;
    }
    std::vector<uint32_t> got(data.size());
    std::mt19937 random(5);
    for (size_t at = 0; at < data.size();) {
      const size_t some = std::min<size_t>(data.size() - at, 1 + random() % 9000);
      if (random() % 2 == 0) {
        ASSERT_TRUE(recv_all(link, 0, got.data() + at, some * 4).ok());
        at += some;
        continue;
      }
      const auto bytes = link.try_peek(0, some * 4, 4);
      std::memcpy(got.data() + at, bytes.data(), bytes.size());
      link.consume(0, bytes.size());
      at += bytes.size() / 4;
    }
    EXPECT_EQ(got, data);
  });
}

TEST(TcpStream, AFastPeersNextCallsWaitTheirTurn) {
  on_links(2, [](int rank, Link& link) {
    for (uint64_t epoch = 1; epoch <= 100; ++epoch) {
      link.begin(mark_of(epoch, epoch));
      std::vector<uint64_t> data(epoch, epoch);
      if (rank == 0) {
        ASSERT_TRUE(send_all(link, 1, data.data(), epoch * 8).ok());
        continue;
      }
      if (epoch == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::vector<uint64_t> got(epoch);
      const Status ended = recv_all(link, 0, got.data(), epoch * 8);
      ASSERT_TRUE(ended.ok()) << ended.text();
      ASSERT_EQ(got, data);
    }
  });
}

// A receive that is tried before its turn finds what another one takes.
TEST(TcpStream, WhatAnotherCallHasTakenSinceIsNoMismatch) {
  on_links(2, [](int rank, Link& link) {
    uint64_t word = 1;
    link.begin(mark_of(1));
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, &word, 8).ok());
      link.begin(mark_of(2));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_TRUE(send_all(link, 1, &word, 8).ok());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    link.begin(mark_of(2));
    ASSERT_EQ(link.try_recv(0, reinterpret_cast<std::byte*>(&word), 8), 0u);
    link.begin(mark_of(1));
    while (link.try_recv(0, reinterpret_cast<std::byte*>(&word), 8) == 0) std::this_thread::yield();
    link.begin(mark_of(2));
    const Status ended = recv_all(link, 0, &word, 8);
    EXPECT_TRUE(ended.ok()) << ended.text();
  });
}

TEST(TcpStream, WhatAnEarlierCallLeftIsAMismatchThatNamesIt) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1, 111));
    uint64_t word = 1;
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, &word, 8).ok());
    }
    link.begin(mark_of(2, 222));
    if (rank == 0) return;
    const Status ended = recv_all(link, 0, &word, 8);
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH);
    EXPECT_NE(ended.text().find("111"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("222"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("call 1"), std::string::npos) << ended.text();
  });
}

TEST(TcpStream, ACallWithoutDataIsComparedToo) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1, rank == 0 ? 0 : 5));
    if (rank == 0) return;  // has nothing to send or to wait for
    uint64_t word = 0;
    const Status ended = recv_all(link, 0, &word, 8);
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH) << ended.text();
    EXPECT_EQ(ended.rank(), 0);
  });
}

TEST(TcpStream, AMessageIsNotAwaitedFromAPeerInsideACollectiveCall) {
  on_links(2, [](int rank, Link& link) {
    uint64_t word = 0;
    CallMark mark = mark_of(rank == 0 ? 4 : 0);
    if (rank == 1) {
      mark.signature.collective = Collective::point_to_point;
      mark.peer = 0;
      mark.digest = call_digest(uint64_t{1} << 63, mark.signature);
    }
    link.begin(mark);
    const Status ended = recv_all(link, 1 - rank, &word, 8);
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH) << ended.text();
    link.abort(ended);
  });
}

TEST(TcpStream, APeerThatLeavesIsNotMissedByThoseThatDoNotWaitForIt) {
  auto group = std::make_shared<ThreadExchangeGroup>(3);
  on_threads(3, [&](int rank) {
    ThreadExchange exchange(group, rank);
    std::unique_ptr<Link> link;
    ASSERT_TRUE(open_all(exchange, 31, &link).ok());
    if (rank == 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
      link->begin(mark_of(epoch));
      uint64_t word = epoch;
      if (rank == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_TRUE(send_all(*link, 1, &word, 8).ok());
      } else {
        const Status ended = recv_all(*link, 0, &word, 8);
        ASSERT_TRUE(ended.ok()) << ended.text();
      }
      const Status found = link->inspect(now_ns());
      ASSERT_TRUE(found.ok()) << found.text();
    }
    link->begin(mark_of(21));
    uint64_t word = 0;
    const Status ended = recv_all(*link, 2, &word, 8);
    EXPECT_EQ(ended.code(), TUTTI_PEER_FAILED);
    EXPECT_EQ(ended.rank(), 2);
    EXPECT_NE(ended.text().find("freed the communicator"), std::string::npos) << ended.text();
  });
}

TEST(TcpStream, AfterAnErrorEveryVerbIsHarmless) {
  // By which what comes is wrong: nothing moves; else what has come still may.
  for (const tutti_status code : {TUTTI_MISMATCH, TUTTI_CORRUPT, TUTTI_ABORTED, TUTTI_TIMEOUT}) {
    SCOPED_TRACE(code);
    on_links(2, [code](int rank, Link& link) {
      link.begin(mark_of(1));
      if (rank == 0) link.abort({code, "enough", 0});
      while (link.inspect(now_ns()).ok()) std::this_thread::yield();
      std::byte bytes[64] = {};
      const size_t most = what_came_counts(code) ? sizeof(bytes) : 0;
      EXPECT_EQ(link.try_send(1 - rank, bytes, sizeof(bytes)), most);
      EXPECT_LE(link.try_recv(1 - rank, bytes, sizeof(bytes)), most);
      EXPECT_LE(link.try_peek(1 - rank, 64, 8).size(), most);
      link.begin(mark_of(2));
      link.arm();
      link.sleep(now_ns() + 1'000'000'000u);
      EXPECT_EQ(link.inspect(now_ns()).code(), code);
      link.abort({TUTTI_ABORTED, "again", 0});
      EXPECT_EQ(link.inspect(now_ns()).text(), "enough");
    });
  }
}

// ---------------------------------------------------------------- a member that sends nonsense

// Rank 0 is a member whose frames `spoil` has changed; rank 1 is a link that must find out.
void expect_corrupt(const std::function<void(const SecureSocket&, const wire::Header&)>& spoil) {
  auto group = std::make_shared<ThreadExchangeGroup>(2);
  on_threads(2, [&](int rank) {
    ThreadExchange exchange(group, rank);
    std::vector<std::string> all;
    if (rank == 1) {
      std::unique_ptr<Link> link;
      ASSERT_TRUE(open_all(exchange, 77, &link).ok());
      link->begin(mark_of(1));
      uint64_t word = 0;
      const Status ended = recv_all(*link, 0, &word, 8, 3'000'000'000u);
      EXPECT_EQ(ended.code(), TUTTI_CORRUPT) << ended.text();
      EXPECT_EQ(ended.rank(), 0);
      ASSERT_TRUE(exchange.allgather("", deadline_after_ms(20'000), &all).ok());
      return;
    }
    const std::vector<uint8_t> peers = {0, 1};
    const LinkSetup setup{&exchange, 77, peers, "", deadline_after_ms(20'000)};
    std::vector<SecureSocket> control;
    tcp::Terms terms;
    ASSERT_TRUE(tcp::connect_mesh(setup, &control, &terms).ok());
    ASSERT_TRUE(agree(exchange, {}, deadline_after_ms(20'000)).ok());
    const CallMark mark = mark_of(1);
    wire::Header good;
    good.comm = 77;
    good.epoch = 1;
    good.signature = mark.signature;
    good.digest = mark.digest;
    good.length = 8;
    spoil(control[1], good);
    ASSERT_TRUE(exchange.allgather("", deadline_after_ms(20'000), &all).ok());
  });
}

std::string bytes_of(const wire::Header& header, const std::string& payload = "xxxxxxxx") {
  const wire::HeaderBytes bytes = wire::encode(header);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + payload;
}

void say(const SecureSocket& control, const std::string& bytes) {
  ASSERT_EQ(::send(control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
}

// As the first of the data stream, before it has a connection.
std::string early(const wire::Header& like, const std::string& bytes) {
  wire::Header header = like;
  header.type = wire::Type::early;
  header.length = uint32_t(bytes.size());
  return bytes_of(header, bytes);
}

TEST(TcpHostileMember, FramesThatCannotBeAreCorruptAndNameTheSender) {
  using Change = std::function<void(wire::Header&)>;
  const Change changes[] = {
      [](wire::Header& header) { header.comm = 78; },
      [](wire::Header& header) { header.src = 1; },
      [](wire::Header& header) { header.stream = 8; },
      [](wire::Header& header) { header.length = 0; },
      [](wire::Header& header) { header.length = wire::most_data_bytes + 1; },
      [](wire::Header& header) {
        header.type = wire::Type::status;
        header.length = 0;
      },
  };
  for (const Change& change : changes) {
    expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
      wire::Header bad = good;
      change(bad);
      say(control, early(good, bytes_of(bad)));
    });
  }
}

TEST(TcpHostileMember, GarbageOnEitherConnectionIsCorrupt) {
  const std::string garbage(200, '\x5a');
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, early(good, garbage));
  });
  expect_corrupt([&](const SecureSocket& control, const wire::Header&) { say(control, garbage); });
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, bytes_of(good));  // data does not belong there
  });
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    wire::Header header = good;  // an abort frame whose payload is no status
    header.type = wire::Type::abort;
    say(control, bytes_of(header));
  });
}

TEST(TcpHostileMember, FramesAboutTheDataConnectionThatCannotBeAreCorrupt) {
  const auto frame = [](const wire::Header& like, wire::Type type, const std::string& payload) {
    wire::Header header = like;
    header.type = type;
    header.length = uint32_t(payload.size());
    return bytes_of(header, payload);
  };
  // More than may come early: the frame's header counts.
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, early(good, std::string(wire::early_bytes, 'x')));
  });
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, early(good, ""));
  });
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, frame(good, wire::Type::moved, ""));
    say(control, early(good, bytes_of(good)));
  });
  expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
    say(control, frame(good, wire::Type::moved, "") + frame(good, wire::Type::moved, ""));
  });
  // Rank 0 is the one that listens: it says where.
  for (const size_t bytes : {size_t{0}, Address::packed_bytes - 1, Address::packed_bytes}) {
    expect_corrupt([&](const SecureSocket& control, const wire::Header& good) {
      say(control, frame(good, wire::Type::connect, std::string(bytes, '\x7f')));
    });
  }
}

// ---------------------------------------------------------------- bring-up

// Shows the addresses that ranks listen on to the test before anybody connects.
class SpiedExchange final : public testing::WrappedExchange {
 public:
  SpiedExchange(Exchange& inner, std::function<void(int rank, const Address&)> seen)
      : WrappedExchange(inner), seen_(std::move(seen)) {}
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    TUTTI_TRY(WrappedExchange::allgather(mine, deadline_ns, all));
    for (size_t rank = 0; rank < all->size(); ++rank) {
      // As agree_on() says that there is one.
      Address address;
      const std::string& said = (*all)[rank];
      if (said.size() != 1 + Address::packed_bytes) continue;
      if (!Address::unpack(reinterpret_cast<const uint8_t*>(said.data()) + 1, &address)) continue;
      seen_(int(rank), address);
    }
    return {};
  }

 private:
  std::function<void(int, const Address&)> seen_;
};

TEST(TcpBringUp, StrangersAndStrayMembersNeitherDelayNorJoinAndNothingListensAfterwards) {
  auto group = std::make_shared<ThreadExchangeGroup>(3);
  std::vector<Stranger> strangers;
  std::vector<Address> addresses(3);
  std::vector<Caller> strays;
  on_threads(3, [&](int rank) {
    ThreadExchange threads(group, rank);
    SpiedExchange exchange(threads, [&](int of, const Address& address) {
      if (rank != 2)
        return;  // the highest rank is awaited by the others: it lets strangers go first
      addresses[size_t(of)] = address;
      if (of == 2) return;
      for (const auto kind : {Stranger::Kind::garbage, Stranger::Kind::silent,
                              Stranger::Kind::right_magic, Stranger::Kind::half_a_hello}) {
        for (int i = 0; i < 12; ++i) strangers.emplace_back(address, kind);
      }
      // Key holders that claim to be somebody they cannot be: the host itself, a lower rank, none.
      for (const int claimed : {of, of - 1, 7}) {
        Destination to;
        to.address = address;
        to.key = threads.key();
        to.claim = {Purpose::data, 55, claimed, of, 3};
        strays.emplace_back(to).advance(now_ns());
      }
    });
    const uint64_t start = now_ns();
    std::unique_ptr<Link> link;
    const Status opened = open_all(exchange, 55, &link);
    ASSERT_TRUE(opened.ok()) << opened.text();
    EXPECT_LT(now_ns() - start, 1'500'000'000u);
    link->begin(mark_of(1));
    uint64_t word = uint64_t(rank);
    ASSERT_TRUE(send_all(*link, (rank + 1) % 3, &word, 8).ok());
    ASSERT_TRUE(recv_all(*link, (rank + 2) % 3, &word, 8).ok());
    EXPECT_EQ(word, uint64_t((rank + 2) % 3));
    std::vector<std::string> all;
    ASSERT_TRUE(threads.allgather("", deadline_after_ms(20'000), &all).ok());
    if (rank != 0) return;
    for (Stranger& one : strangers) EXPECT_TRUE(one.was_closed_without_an_answer());
    for (const Address& address : addresses) {
      Fd probe(::socket(AF_INET, SOCK_STREAM, 0));
      EXPECT_NE(::connect(probe.get(), &address.any, address.length()), 0) << address.text();
    }
  });
}

TEST(TcpBringUp, AnInterfaceThatIsNotThereIsInvalidAndTheOthersHearOfIt) {
  auto group = std::make_shared<ThreadExchangeGroup>(2);
  on_threads(2, [&](int rank) {
    ThreadExchange exchange(group, rank);
    std::unique_ptr<Link> link;
    const Status opened = open_all(exchange, 56, &link, rank == 1 ? "nope0" : "lo");
    EXPECT_EQ(opened.code(), TUTTI_INVALID);
    EXPECT_NE(opened.text().find("nope0"), std::string::npos) << opened.text();
    EXPECT_NE(opened.text().find("lo (127.0.0.1)"), std::string::npos) << opened.text();
    EXPECT_EQ(link, nullptr);
  });
}

// In a process of its own, whose limits never rise again.
void with_descriptor_limits(rlim_t soft, rlim_t hard, const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit few{soft, hard};
    setrlimit(RLIMIT_NOFILE, &few);
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(TcpBringUp, WithoutFileDescriptorsTheLimitIsNamedOnEveryRank) {
  const rlim_t few = rlim_t(Fd(dup(0)).get()) + 8;
  with_descriptor_limits(few, few, [few] {
    auto group = std::make_shared<ThreadExchangeGroup>(4);
    on_threads(4, [&](int rank) {
      ThreadExchange exchange(group, rank);
      std::unique_ptr<Link> link;
      const Status opened = open_all(exchange, 57, &link);
      EXPECT_EQ(opened.code(), TUTTI_SYSTEM) << opened.text();
      EXPECT_NE(opened.text().find("limit is " + std::to_string(few)), std::string::npos)
          << opened.text();
    });
  });
}

TEST(TcpBringUp, WhereTheLimitOnFileDescriptorsMayBeRaisedItIs) {
  const rlim_t few = rlim_t(Fd(dup(0)).get()) + 8;
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  with_descriptor_limits(few, old.rlim_max, [] {
    auto group = std::make_shared<ThreadExchangeGroup>(4);
    on_threads(4, [&](int rank) {
      ThreadExchange exchange(group, rank);
      std::unique_ptr<Link> link;
      const Status opened = open_all(exchange, 57, &link);
      EXPECT_TRUE(opened.ok()) << opened.text();
    });
  });
}

TEST(TcpBringUp, ARankThatNeverConnectsIsNamedAtTheDeadline) {
  auto group = std::make_shared<ThreadExchangeGroup>(2);
  on_threads(2, [&](int rank) {
    ThreadExchange exchange(group, rank);
    if (rank == 0) {
      std::unique_ptr<Link> link;
      const uint64_t start = now_ns();
      const Status opened = open_all(exchange, 58, &link, "lo", 300);
      EXPECT_LT(now_ns() - start, 1'000'000'000u);
      EXPECT_EQ(opened.code(), TUTTI_TIMEOUT) << opened.text();
      EXPECT_EQ(opened.rank(), 1) << opened.text();
      return;
    }
    // Takes part in the exchange, but does not connect.
    const uint64_t deadline_ns = deadline_after_ms(5000);
    const std::string address(Address::packed_bytes, '\0');
    std::vector<std::string> all;
    ASSERT_TRUE(exchange.allgather("another network", deadline_ns, &all).ok());
    ASSERT_TRUE(agree_on(exchange, {}, address, deadline_ns, &all).ok());
    EXPECT_EQ(agree(exchange, {}, deadline_ns).code(), TUTTI_TIMEOUT);
  });
}

}  // namespace
}  // namespace tutti
