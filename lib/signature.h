// Which call a rank makes: what all ranks of a communicator must agree on, and its digest.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/algorithm.h"
#include "tutti/tutti.h"

namespace tutti {

// 32 bytes, no padding: published in shared memory and sent in frames as it stands (little endian).
struct CallSignature {
  uint64_t count = 0;
  int32_t root = 0;       // or, point to point, the tag
  uint16_t algorithm = 0; // index in algorithms(); 0xffff: none
  Collective collective = Collective::allreduce;
  uint8_t dtype = 0;      // tutti_dtype
  uint8_t op = 0;         // tutti_op
  uint8_t flags = 0;
  uint8_t reserved[14] = {};

  bool operator==(const CallSignature&) const = default;
  // "allreduce of 1024 float32, sum, ring"; safe on any bytes.
  std::string describe() const;
};
static_assert(sizeof(CallSignature) == 32);

// One call of one rank. Epochs count the calls on a communicator from 1; point-to-point messages
// have none (0) and are ordered by their pair of ranks.
struct CallMark {
  uint64_t epoch = 0;
  CallSignature signature;
  uint32_t digest = 0;  // call_digest(epoch, signature)
};

// Never 0. Equal calls have equal digests; different ones differ but for a chance of 2^-32, and then
// the full signature published beside it still tells them apart.
uint32_t call_digest(uint64_t epoch, const CallSignature& signature);

}  // namespace tutti
