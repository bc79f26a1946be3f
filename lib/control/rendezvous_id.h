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
  // Rank 0 begins to listen at a given address at any time: ranks that come earlier wait for it.
  // Otherwise it has listened since before the id was made.
  bool fixed = false;

  tutti_unique_id encode() const;
  // INVALID for bytes that encode() could not have made.
  static Status parse(const tutti_unique_id& id, RendezvousId* out);
};

}  // namespace tutti
