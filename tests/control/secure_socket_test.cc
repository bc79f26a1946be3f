// Records over a socket: how bytes are taken and given, whatever the kernel takes and gives.
#include "lib/control/secure_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <vector>

#include "lib/control/frame_channel.h"

namespace tutti {
namespace {

struct Connection {
  explicit Connection(Integrity integrity, int buffer_bytes = 0) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    if (buffer_bytes > 0) setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(int));
    raw[0] = ends[0];
    raw[1] = ends[1];
    const JobKey there{{1}}, back{{2}};
    one = SecureSocket(Fd(ends[0]), integrity, {there, back});
    other = SecureSocket(Fd(ends[1]), integrity, {back, there});
  }
  int raw[2];
  SecureSocket one, other;
};

class SecureSockets : public ::testing::TestWithParam<Integrity> {};
INSTANTIATE_TEST_SUITE_P(All, SecureSockets,
                         ::testing::Values(Integrity::none, Integrity::checksum,
                                           Integrity::encrypted),
                         [](const auto& one) { return std::string(name_of(one.param)); });

std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = uint8_t(i * 31 + (i >> 8));
  return made;
}

TEST_P(SecureSockets, BytesComeInOrderHoweverTheyAreOfferedAndTaken) {
  Connection connection(GetParam(), 20'000);  // less than a record: the kernel takes parts
  std::mt19937 random(7);
  const std::vector<uint8_t> sent = pattern(3'000'000);
  std::vector<uint8_t> got(sent.size());
  size_t out = 0, in = 0;
  while (in < got.size()) {
    // At least what was offered before, as the contract says; in two parts.
    const size_t offer = std::min(sent.size() - out, size_t(100'000));
    const size_t first = random() % (offer + 1);
    const iovec parts[] = {{const_cast<uint8_t*>(sent.data()) + out, first},
                           {const_cast<uint8_t*>(sent.data()) + out + first, offer - first}};
    if (offer > 0) {
      if (const ssize_t n = connection.one.send(parts); n > 0) out += size_t(n);
    }
    const size_t want = std::min(got.size() - in, size_t(1 + random() % 90'000));
    const size_t front = random() % (want + 1);
    const iovec room[] = {{got.data() + in, front}, {got.data() + in + front, want - front}};
    const ssize_t n = connection.other.receive(room);
    if (n > 0) in += size_t(n);
    ASSERT_TRUE(n > 0 || errno == EAGAIN) << errno;
  }
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(connection.one.holds());
}

TEST_P(SecureSockets, AnOfferMayBeShorterThanTheOneBefore) {
  Connection connection(GetParam(), 5'000);
  const std::vector<uint8_t> sent = pattern(200'000);
  std::vector<uint8_t> got(sent.size());
  size_t out = 0, in = 0;
  for (size_t turn = 0; in < got.size(); ++turn) {
    const size_t offer = std::min(sent.size() - out, turn % 2 == 0 ? size_t(32'000) : size_t(10));
    const iovec part{const_cast<uint8_t*>(sent.data()) + out, offer};
    if (offer > 0) {
      const ssize_t n = connection.one.send({&part, 1});
      ASSERT_LE(n, ssize_t(offer));
      if (n > 0) out += size_t(n);
    }
    const iovec room{got.data() + in, got.size() - in};
    if (const ssize_t n = connection.other.receive({&room, 1}); n > 0) in += size_t(n);
  }
  EXPECT_EQ(got, sent);
}

// Nothing sees to what the kernel has not got, so nothing of a record counts before all of it does.
TEST(SecureSocket, WhatIsTakenNeedsNoFurtherCall) {
  Connection connection(Integrity::encrypted, 20'000);
  const std::vector<uint8_t> sent = pattern(1'000'000);
  const iovec part{const_cast<uint8_t*>(sent.data()), sent.size()};
  const ssize_t taken = connection.one.send({&part, 1});
  ASSERT_TRUE(connection.one.holds());
  std::vector<uint8_t> got(sent.size());
  size_t in = 0;
  for (ssize_t n = 1; n > 0;) {
    const iovec room{got.data() + in, got.size() - in};
    n = connection.other.receive({&room, 1});
    if (n > 0) in += size_t(n);
  }
  EXPECT_GE(ssize_t(in), taken);
}

// Both want their records sent before they receive, and the kernel holds less than one.
TEST(SecureSocket, TwoThatSendGoOnWhereTheyTakeIn) {
  Connection connection(Integrity::encrypted, 5'000);
  constexpr int least = 1;  // what the kernel has least
  setsockopt(connection.raw[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
  const std::vector<uint8_t> sent = pattern(60'000);
  SecureSocket* const ends[] = {&connection.one, &connection.other};
  size_t out[2] = {0, 0};
  const auto send = [&](bool takes_in) {
    for (int end = 0; end < 2; ++end) {
      const iovec part{const_cast<uint8_t*>(sent.data()) + out[end], sent.size() - out[end]};
      if (part.iov_len == 0) continue;
      if (const ssize_t n = ends[end]->send({&part, 1}); n > 0) out[end] += size_t(n);
      if (takes_in && ends[end]->holds()) ends[end]->take_in();
    }
  };
  for (int i = 0; i < 100; ++i) send(false);
  ASSERT_EQ(out[0] + out[1], 0u);
  for (int i = 0; i < 100; ++i) send(true);
  ASSERT_GT(out[0] + out[1], 0u);
  // Who has sent all receives.
  std::vector<uint8_t> got[2];
  for (int i = 0; i < 1000; ++i) {
    send(true);
    for (int end = 0; end < 2; ++end) {
      if (out[end] < sent.size()) continue;
      uint8_t bytes[4096];
      const iovec room{bytes, sizeof(bytes)};
      if (const ssize_t n = ends[end]->receive({&room, 1}); n > 0)
        got[end].insert(got[end].end(), bytes, bytes + n);
    }
  }
  EXPECT_EQ(got[0], sent);
  EXPECT_EQ(got[1], sent);
}

TEST(SecureSocket, WhatWasMetWhileItTookInIsToldAfterWhatCame) {
  Connection connection(Integrity::encrypted);
  uint8_t byte = 7;
  const iovec part{&byte, 1};
  ASSERT_EQ(connection.one.send({&part, 1}), 1);
  ASSERT_EQ(connection.other.send({&part, 1}), 1);
  connection.one.reset();  // with something unread: a reset
  for (int i = 0; i < 3; ++i) connection.other.take_in();
  uint8_t got[8] = {};
  const iovec room{got, sizeof(got)};
  EXPECT_EQ(connection.other.receive({&room, 1}), 1);
  EXPECT_EQ(got[0], 7);
  EXPECT_EQ(connection.other.receive({&room, 1}), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST(SecureSocket, AChangedRecordIsBadFromThenOn) {
  for (const Integrity integrity : {Integrity::checksum, Integrity::encrypted}) {
    Connection from(integrity), to(integrity);
    uint8_t byte = 7;
    const iovec part{&byte, 1};
    ASSERT_EQ(from.one.send({&part, 1}), 1);
    ASSERT_EQ(from.one.send({&part, 1}), 1);
    uint8_t records[100];
    const ssize_t length = ::read(from.raw[1], records, sizeof(records));
    ASSERT_GT(length, 0);
    records[4] ^= 1;
    ASSERT_EQ(::write(to.raw[0], records, size_t(length)), length);
    for (int i = 0; i < 3; ++i) {
      uint8_t got[8] = {};
      const iovec room{got, sizeof(got)};
      ASSERT_EQ(to.other.receive({&room, 1}), -1);
      EXPECT_EQ(errno, EBADMSG);
    }
  }
}

TEST(SecureSocket, FramesPassAndAChangedOneIsCorrupt) {
  Connection connection(Integrity::encrypted);
  FrameChannel from(std::move(connection.one), wire::most_abort_bytes);
  FrameChannel to(std::move(connection.other), wire::most_abort_bytes);
  wire::Header header;
  header.type = wire::Type::abort;
  from.queue(header, "why");
  ASSERT_TRUE(from.flush());
  EXPECT_TRUE(from.flushed());
  std::string_view payload;
  Status why;
  ASSERT_EQ(to.read(&header, &payload, &why), FrameChannel::Got::frame);
  EXPECT_EQ(payload, "why");
  const char in_clear[40] = "no record at all";
  ASSERT_EQ(::send(connection.raw[0], in_clear, sizeof(in_clear), 0), ssize_t(sizeof(in_clear)));
  EXPECT_EQ(to.read(&header, &payload, &why), FrameChannel::Got::broken);
  EXPECT_EQ(why.code(), TUTTI_CORRUPT);
}

// Of a connection that the kernel has given up, whoever asks first is told why, once.
TEST(FrameChannel, AnErrorThatSendingHasMetIsNoEndOfThePeer) {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto address = reinterpret_cast<sockaddr*>(&here);
  const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  socklen_t length = sizeof(here);
  ASSERT_EQ(::bind(listener.get(), address, length), 0);
  ASSERT_EQ(::getsockname(listener.get(), address, &length), 0);
  const auto connect = [&] {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(socket.get(), address, length));
    return FrameChannel(std::move(socket), wire::most_abort_bytes);
  };
  wire::Header header;
  header.type = wire::Type::abort;
  std::string_view payload;
  Status why;
  for (const bool sends_first : {true, false}) {  // nobody listens yet
    FrameChannel refused = connect();
    if (sends_first) refused.queue(header, "why");
    EXPECT_EQ(refused.flush(), !sends_first);
    EXPECT_EQ(refused.read(&header, &payload, &why), FrameChannel::Got::broken);
    EXPECT_EQ(why.code(), TUTTI_PEER_FAILED);
    EXPECT_EQ(why.text(), "Connection refused");
  }
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  for (const bool sends_first : {true, false}) {
    FrameChannel channel = connect();
    channel.queue(header, "what the peer does not read");
    ASSERT_TRUE(channel.flush());
    { const Fd peer(::accept(listener.get(), nullptr, nullptr)); }
    if (sends_first) channel.queue(header, "more");
    EXPECT_EQ(channel.flush(), !sends_first);
    EXPECT_EQ(channel.read(&header, &payload, &why), FrameChannel::Got::reset);
  }
}

}  // namespace
}  // namespace tutti
