#include "lib/control/handshake.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

using State = Handshake::State;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t job = 99;
constexpr uint8_t link_purposes = uint8_t(Purpose::data) | uint8_t(Purpose::control);

JobKey key_of(uint8_t value) {
  JobKey key;
  key.fill(value);
  return key;
}
JobKey nonce_of(uint8_t value) { return key_of(value); }
Claim claim_of(int client, int server, Purpose purpose = Purpose::data) {
  return {purpose, job, client, server, 4};
}

Bytes take_output(Handshake& from) {
  Bytes bytes(from.output().begin(), from.output().end());
  from.sent(bytes.size());
  return bytes;
}
void give(Handshake& to, const Bytes& bytes) {
  for (size_t at = 0; at < bytes.size() && to.wants() > 0;) {
    const size_t n = std::min(to.wants(), bytes.size() - at);
    to.receive({bytes.data() + at, n});
    at += n;
  }
}
// Both sides until neither has more to say.
void converse(Handshake& client, Handshake& server) {
  for (int i = 0; i < 4; ++i) {
    give(server, take_output(client));
    give(client, take_output(server));
  }
}

TEST(HandshakeTest, BothSidesOfOneJobAcceptEachOther) {
  for (const Purpose purpose : {Purpose::data, Purpose::control}) {
    auto client = Handshake::client(key_of(1), claim_of(3, 2, purpose), nonce_of(10));
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    converse(client, server);
    EXPECT_EQ(client.state(), State::done);
    ASSERT_EQ(server.state(), State::done) << server.reason();
    EXPECT_EQ(server.claim().client, 3);
    EXPECT_EQ(server.claim().nranks, 4u);
    EXPECT_EQ(server.claim().purpose, purpose);
  }
}

// What was said and the job's key, which is all that somebody can have later, do not give the keys.
TEST(HandshakeTest, KeysWithASecretAgreedOnAreNotFoundFromTheJobsKey) {
  std::vector<SessionKeys> found;
  for (const bool agrees : {false, true}) {
    Claim claim = claim_of(3, 2);
    claim.agrees_on_secret = agrees;
    auto client = Handshake::client(key_of(1), claim, nonce_of(10));
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    const Bytes hello = take_output(client);
    give(server, hello);
    const Bytes challenge = take_output(server);
    give(client, challenge);
    converse(client, server);
    ASSERT_EQ(server.state(), State::done) << server.reason();
    EXPECT_EQ(server.claim().agrees_on_secret, agrees);
    const SessionKeys keys = client.session();
    EXPECT_EQ(keys.sending, server.session().receiving);
    EXPECT_EQ(keys.receiving, server.session().sending);
    const std::span<const uint8_t> claimed(hello.data(), 96), nonce(challenge.data(), 32);
    const JobKey session{keyed_hash(key_of(1), "tutti session", {claimed, nonce})};
    const JobKey guessed{keyed_hash(session, "tutti client to server", {})};
    EXPECT_EQ(guessed == keys.sending, !agrees);
    // Public values, not the numbers themselves.
    EXPECT_EQ(Bytes(hello.begin() + 64, hello.begin() + 96) == Bytes(32, 10), !agrees);
    EXPECT_EQ(Bytes(challenge.begin(), challenge.begin() + 32) == Bytes(32, 20), !agrees);
  }
}

TEST(HandshakeTest, ItWorksOneByteAtATime) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  for (int i = 0; i < 400; ++i) {
    for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
      if (from->output().empty()) continue;
      to->receive(from->output().first(1));
      from->sent(1);
    }
  }
  EXPECT_EQ(client.state(), State::done);
  EXPECT_EQ(server.state(), State::done);
}

TEST(HandshakeTest, AWrongKeyIsRefusedWithoutAnAnswer) {
  auto client = Handshake::client(key_of(2), claim_of(3, 2), nonce_of(10));
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  give(server, take_output(client));
  EXPECT_EQ(server.state(), State::refused);
  EXPECT_TRUE(server.output().empty());
  EXPECT_FALSE(server.greeted());
}

TEST(HandshakeTest, GarbageIsRefusedAtItsFirstByteWithoutAnAnswer) {
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  give(server, Bytes{'G'});
  EXPECT_EQ(server.state(), State::refused);
  EXPECT_TRUE(server.output().empty());
}

TEST(HandshakeTest, TheRightKeyForSomethingElseIsRefused) {
  struct {
    Claim claim;
    const char* what;
  } wrong[] = {
      {claim_of(3, 1), "another server"},
      {{Purpose::data, job + 1, 3, 2, 4}, "another job"},
      {claim_of(3, 2, Purpose::bootstrap), "another purpose"},
      {claim_of(3, 2, Purpose(6)), "two purposes at once"},
      {claim_of(3, 2, Purpose(0)), "no purpose"},
      {claim_of(2, 2), "the server's own rank"},
      {claim_of(-1, 2), "no rank"},
      {claim_of(1, 2), "a lower rank, which does not call"},
      {claim_of(4, 2), "a rank beyond the last"},
  };
  for (const auto& one : wrong) {
    auto client = Handshake::client(key_of(1), one.claim, nonce_of(10));
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    give(server, take_output(client));
    EXPECT_EQ(server.state(), State::refused) << one.what;
    EXPECT_TRUE(server.output().empty()) << one.what;
  }
}

TEST(HandshakeTest, EveryBitOfTheHelloIsCovered) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  const Bytes hello = take_output(client);
  ASSERT_EQ(hello.size(), 128u);
  for (size_t bit = 0; bit < hello.size() * 8; ++bit) {
    Bytes changed = hello;
    changed[bit / 8] ^= uint8_t(1u << (bit % 8));
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    give(server, changed);
    ASSERT_EQ(server.state(), State::refused) << bit;
  }
}

TEST(HandshakeTest, AReplayedConversationStopsAtTheFreshNonce) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  const Bytes hello = take_output(client);
  give(server, hello);
  give(client, take_output(server));
  const Bytes proof = take_output(client);
  give(server, proof);
  ASSERT_EQ(server.state(), State::done);

  auto again = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(21));
  give(again, hello);
  EXPECT_EQ(again.state(), State::running);
  give(again, proof);
  EXPECT_EQ(again.state(), State::refused);
}

TEST(HandshakeTest, ReflectedMessagesAreNoAnswer) {
  // What the client says comes back to it as if from a server.
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  give(client, take_output(client));
  EXPECT_EQ(client.state(), State::refused);

  // The server's own proof comes back to it as if from the client.
  auto honest = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  give(server, take_output(honest));
  const Bytes challenge = take_output(server);
  give(server, Bytes(challenge.begin() + 32, challenge.end()));
  EXPECT_EQ(server.state(), State::refused);
}

TEST(HandshakeTest, AClientIsInOnlyOnceItsServerSaysSo) {
  for (size_t bit = 0; bit <= 32 * 8; ++bit) {
    auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    give(server, take_output(client));
    give(client, take_output(server));
    give(server, take_output(client));
    ASSERT_EQ(server.state(), State::done);
    ASSERT_EQ(client.state(), State::running);
    Bytes admission = take_output(server);
    ASSERT_EQ(admission.size(), 32u);
    const bool changed = bit < admission.size() * 8;
    if (changed) admission[bit / 8] ^= uint8_t(1u << (bit % 8));
    give(client, admission);
    ASSERT_EQ(client.state(), changed ? State::refused : State::done) << bit;
  }
}

TEST(HandshakeTest, AClientsOwnProofDoesNotAdmitIt) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
  give(server, take_output(client));
  give(client, take_output(server));
  give(client, take_output(client));
  EXPECT_EQ(client.state(), State::refused);
}

TEST(HandshakeTest, AServerWithoutTheKeyIsNotTrusted) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  take_output(client);
  give(client, Bytes(64, 0x5a));
  EXPECT_EQ(client.state(), State::refused);
  EXPECT_TRUE(client.output().empty());
}

TEST(HandshakeTest, TruncatedMessagesNeverFinish) {
  auto client = Handshake::client(key_of(1), claim_of(3, 2), nonce_of(10));
  const Bytes hello = take_output(client);
  for (size_t length = 0; length < hello.size(); ++length) {
    auto server = Handshake::server(key_of(1), link_purposes, job, 2, nonce_of(20));
    give(server, Bytes(hello.begin(), hello.begin() + ptrdiff_t(length)));
    ASSERT_EQ(server.state(), State::running) << length;
    ASSERT_TRUE(server.output().empty()) << length;
  }
}

}  // namespace
}  // namespace tutti
