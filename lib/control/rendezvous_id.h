// What is inside a tutti_unique_id: 128 bytes, little endian. Offsets:
//    0 magic (8)   8 version (1)   9 flags (1)   16 address (24, lib/control/address.h)
//   40 key (32)   72 zero (52)   124 CRC-32C of the bytes before (4)
#pragma once

#include "lib/control/address.h"
#include "lib/control/exchange.h"
#include "tutti/tutti.h"

namespace tutti {

struct RendezvousId {
  Address address;
  JobKey key{};
  // Rank 0 comes to a fixed place at a time of its own: whoever is early waits for it. Otherwise it
  // has listened since before the id was made.
  bool fixed = false;

  tutti_unique_id encode() const;
  // INVALID for bytes that encode() has not made.
  static Status parse(const tutti_unique_id& id, RendezvousId* out);
};

}  // namespace tutti
