// The bytes of a unique id: what was made is read to the same, and nothing else is read.
#include "lib/control/rendezvous_id.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lib/control/bytes.h"
#include "lib/control/crc32c.h"

namespace tutti {
namespace {

RendezvousId id_at(const char* host) {
  RendezvousId id;
  if (inet_pton(AF_INET, host, &id.address.v4.sin_addr) == 1) {
    id.address.v4.sin_family = AF_INET;
  } else {
    id.address.v6.sin6_family = AF_INET6;
    id.address.v6.sin6_scope_id = 2;
    EXPECT_EQ(inet_pton(AF_INET6, host, &id.address.v6.sin6_addr), 1);
  }
  id.address.set_port(4711);
  for (size_t i = 0; i < id.key.size(); ++i) id.key[i] = uint8_t(i + 1);
  return id;
}

TEST(RendezvousId, IsReadToWhatItWasMadeOf) {
  for (const char* host : {"10.0.0.1", "fe80::1"}) {
    for (const bool fixed : {false, true}) {
      RendezvousId made = id_at(host), read;
      made.fixed = fixed;
      ASSERT_TRUE(RendezvousId::parse(made.encode(), &read).ok());
      EXPECT_EQ(read.address.text(), made.address.text());
      EXPECT_EQ(read.key, made.key);
      EXPECT_EQ(read.fixed, fixed);
    }
  }
}

// Each byte but those of the key, whose every value makes an id, with a checksum that fits.
TEST(RendezvousId, WhatCannotHaveBeenMadeIsRefused) {
  for (const char* host : {"10.0.0.1", "fe80::1"}) {
    const tutti_unique_id good = id_at(host).encode();
    for (size_t at = 0; at < 124; ++at) {
      if (at == 40) at = 72;
      tutti_unique_id changed = good;
      changed.bytes[at] ^= 0x80;
      put_le<uint32_t>(changed.bytes + 124, crc32c(changed.bytes, 124));
      RendezvousId read;
      const Status parsed = RendezvousId::parse(changed, &read);
      if (!parsed.ok()) {
        EXPECT_EQ(parsed.code(), TUTTI_INVALID);
        continue;
      }
      const tutti_unique_id again = read.encode();
      EXPECT_EQ(std::memcmp(again.bytes, changed.bytes, sizeof(again)), 0) << host << ", " << at;
    }
  }
  tutti_unique_id without_checksum = id_at("10.0.0.1").encode();
  without_checksum.bytes[50] ^= 1;
  RendezvousId read = id_at("10.0.0.2");
  EXPECT_EQ(RendezvousId::parse(without_checksum, &read).code(), TUTTI_INVALID);
  EXPECT_EQ(read.address.host(), "10.0.0.2");
}

}  // namespace
}  // namespace tutti
