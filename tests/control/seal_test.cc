#include "lib/control/seal.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lib/control/handshake.h"

namespace tutti {
namespace {

using Bytes = std::vector<uint8_t>;

JobKey key_from(uint8_t first) {
  JobKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = uint8_t(first + i);
  return key;
}

Bytes record_of(Seal& seal, const std::string& text) {
  const iovec part{const_cast<char*>(text.data()), text.size()};
  Bytes record(Seal::most_record_bytes);
  record.resize(seal.seal({&part, 1}, 0, text.size(), record.data()));
  return record;
}

// Empty: it does not open.
std::string text_of(Seal& seal, const Bytes& record) {
  std::string text(Seal::text_bytes(record.data()), '\0');
  const bool whole = record.size() == Seal::head_bytes + text.size() + seal.tag_bytes();
  auto* const to = reinterpret_cast<uint8_t*>(text.data());
  return whole && seal.open(record.data(), text.size(), to) ? text : "";
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

struct Pair {
  explicit Pair(Integrity kind = Integrity::encrypted)
      : out(kind, Seal::Use::sealing, key_from(0)), in(kind, Seal::Use::opening, key_from(0)) {}
  Seal out, in;
};

class SealKinds : public ::testing::TestWithParam<Integrity> {};
INSTANTIATE_TEST_SUITE_P(All, SealKinds,
                         ::testing::Values(Integrity::checksum, Integrity::encrypted),
                         [](const auto& one) { return std::string(name_of(one.param)); });

// Made by Python: AESGCM(key).encrypt(bytes(4) + number of 8 bytes, b"tutti", length of 4 bytes),
// of the package cryptography, with bytes(range(32)) as the key, and at last with hmac(key, b"tutti
// next key\0", sha256).
TEST(Seal, RecordsAreThoseOfAnotherAesGcm) {
  Pair pair;
  EXPECT_EQ(hex(record_of(pair.out, "tutti")),
            "050000007ac9c1aadcaf52c44d0a9bbe42f3b82be78d749fe4");
  EXPECT_EQ(hex(record_of(pair.out, "tutti")),
            "0500000091e2014417fd012032e848efee085a323068ee8a7b");
  for (uint64_t i = 2; i < Seal::records_a_key; ++i) record_of(pair.out, "x");
  EXPECT_EQ(hex(record_of(pair.out, "tutti")),
            "05000000492664b6d3da0a544e73ecf3bc489a618d4132e918");
}

TEST_P(SealKinds, WhatWasSealedOpensAlsoInParts) {
  Pair pair(GetParam());
  std::string text(Seal::most_text_bytes + 10, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = char(i * 7);
  const iovec parts[] = {{text.data(), 3}, {nullptr, 0}, {text.data() + 3, text.size() - 3}};
  Bytes record(Seal::most_record_bytes);
  for (const size_t skip : {size_t(0), size_t(2), size_t(3), size_t(10)}) {
    const size_t bytes = pair.out.seal(parts, skip, Seal::most_text_bytes, record.data());
    ASSERT_EQ(bytes, Seal::head_bytes + Seal::most_text_bytes + pair.out.tag_bytes());
    EXPECT_EQ(text_of(pair.in, Bytes(record.begin(), record.begin() + ptrdiff_t(bytes))),
              text.substr(skip, Seal::most_text_bytes));
  }
}

TEST_P(SealKinds, EveryBitOfARecordIsCovered) {
  for (size_t bit = 0;; ++bit) {
    Pair pair(GetParam());
    Bytes record = record_of(pair.out, "what nobody may change");
    if (bit == record.size() * 8) break;
    record[bit / 8] ^= uint8_t(1u << (bit % 8));
    ASSERT_EQ(text_of(pair.in, record), "") << bit;
  }
}

TEST_P(SealKinds, RecordsOpenOnceInTheirOrderAndNothingOpensAfterwards) {
  const auto expect_end = [&](std::initializer_list<size_t> order) {
    Pair pair(GetParam());
    std::vector<Bytes> records;
    for (const char* text : {"one", "two", "three"}) records.push_back(record_of(pair.out, text));
    size_t next = 0;
    for (const size_t i : order) {
      const bool opens = text_of(pair.in, records[i]) != "";
      ASSERT_EQ(opens, i == next) << i;
      if (!opens) break;
      ++next;
    }
    EXPECT_EQ(text_of(pair.in, records[next]), "") << "the right one, but too late";
  };
  expect_end({0, 0});
  expect_end({0, 2});
  expect_end({1});
  expect_end({0, 1, 0});
}

TEST(Seal, NoKeystreamIsUsedTwiceAlsoAcrossKeys) {
  Pair pair;
  const std::string text(16, '\0');  // so that the record shows the keystream
  std::set<Bytes> seen;
  for (uint64_t i = 0; i < 2 * Seal::records_a_key + 2; ++i) {
    const Bytes record = record_of(pair.out, text);
    ASSERT_TRUE(seen.insert(Bytes(record.begin() + 4, record.begin() + 20)).second) << i;
    ASSERT_EQ(text_of(pair.in, record), text) << i;
  }
}

TEST(Seal, LengthsThatNoRecordHasAreNone) {
  const uint8_t zero[4] = {}, longer[4] = {1, 0x80, 0, 0}, longest[4] = {0, 0x80, 0, 0};
  EXPECT_EQ(Seal::text_bytes(zero), 0u);
  EXPECT_EQ(Seal::text_bytes(longer), 0u);
  EXPECT_EQ(Seal::text_bytes(longest), Seal::most_text_bytes);
}

TEST(Seal, NamesAreThoseOfTheVariable) {
  for (const auto one :
       {Integrity::automatic, Integrity::none, Integrity::checksum, Integrity::encrypted}) {
    EXPECT_EQ(integrity_from_name(name_of(one)), one);
  }
  EXPECT_EQ(integrity_from_name("off"), std::nullopt);
}

// ---------------------------------------------------------------- the keys of a connection

struct Ends {
  SessionKeys client, server;
};

Ends shake_hands(const JobKey& key, const Claim& claim, uint8_t nonces) {
  auto client = Handshake::client(key, claim, {{nonces, 1}});
  auto server =
      Handshake::server(key, uint8_t(claim.purpose), claim.job, claim.server, {{nonces, 2}});
  while (!client.output().empty() || !server.output().empty()) {
    for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
      while (!from->output().empty()) {
        const size_t some = std::min(from->output().size(), to->wants());
        to->receive(from->output().first(some));
        from->sent(some);
      }
    }
  }
  EXPECT_EQ(client.state(), Handshake::State::done) << client.reason();
  EXPECT_EQ(server.state(), Handshake::State::done) << server.reason();
  return {client.session(), server.session()};
}

TEST(SessionKeysTest, BothEndsHaveThemAndNoOtherConnectionHas) {
  const Claim claim{Purpose::data, 99, 3, 2, 5, Mac{5}};
  std::set<JobKey> seen;
  const auto expect_new = [&](const char* what, const JobKey& key, const Claim& of,
                              uint8_t nonces) {
    const Ends ends = shake_hands(key, of, nonces);
    EXPECT_EQ(ends.client.sending, ends.server.receiving) << what;
    EXPECT_EQ(ends.client.receiving, ends.server.sending) << what;
    EXPECT_TRUE(seen.insert(ends.client.sending).second) << what;
    EXPECT_TRUE(seen.insert(ends.client.receiving).second) << what;
  };
  expect_new("the first", key_from(1), claim, 1);
  expect_new("another job's key", key_from(2), claim, 1);
  expect_new("fresh nonces", key_from(1), claim, 2);
  const auto expect_new_where = [&](const char* what, void (*differs)(Claim&)) {
    Claim other = claim;
    differs(other);
    expect_new(what, key_from(1), other, 1);
  };
  expect_new_where("another kind of connection", [](Claim& c) { c.purpose = Purpose::control; });
  expect_new_where("another communicator or epoch", [](Claim& c) { c.job = 100; });
  expect_new_where("another client", [](Claim& c) { c.client = 4; });
  expect_new_where("another server", [](Claim& c) { c.server = 1; });
  expect_new_where("another number of ranks", [](Claim& c) { c.nranks = 6; });
  expect_new_where("other addresses", [](Claim& c) { c.binding = Mac{6}; });
  expect_new_where("a secret agreed on", [](Claim& c) { c.agrees_on_secret = true; });
}

}  // namespace
}  // namespace tutti
