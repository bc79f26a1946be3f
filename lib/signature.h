// Which call a rank makes: what all ranks of a communicator must agree on, and its digest.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "algorithms/algorithm.h"
#include "tutti/tutti.h"

namespace tutti {

// 32 bytes, no padding: published in shared memory and sent in frames as it stands (little endian).
struct CallSignature {
  uint64_t count = 0;
  int32_t root = 0;        // or, point to point, the tag; of a v form whose block lengths all
                           // ranks know, a digest of them
  uint16_t algorithm = 0;  // index in algorithms(); 0xffff: none
  Collective collective = Collective::allreduce;
  uint8_t dtype = 0;  // tutti_dtype; numbers of the program's own types are of one process only,
  uint8_t op = 0;     // so a fixed code stands for them, as for its operators
  uint8_t flags = 0;  // how it runs, and v_form
  uint16_t element_size = 0;  // of the program's own types, else 0
  uint8_t reserved[12] = {};

  static constexpr uint8_t user_dtype = 0xff;
  static constexpr uint8_t premul_sum = 0xfd, commutative_op = 0xfe, ordered_op = 0xff;
  static constexpr uint8_t v_form = 0x80;
  void set_types(tutti_dtype dtype, tutti_op op);

  bool operator==(const CallSignature&) const = default;
  // "allreduce of 1024 float32, sum, ring"; safe on any bytes.
  std::string describe() const;

 private:
  std::string describe_v() const;
};
static_assert(sizeof(CallSignature) == 32);

// One call of one rank. Epochs count the calls on a communicator from 1; point-to-point messages
// have none (0) and are ordered by their pair of ranks.
struct CallMark {
  uint64_t epoch = 0;
  CallSignature signature;
  uint32_t digest = 0;  // call_digest(epoch, signature)
  int32_t peer = -1;    // point to point: the other rank
};

// The part of a digest that is the same for every call like this one.
inline uint64_t signature_hash(const CallSignature& signature) {
  uint64_t words[sizeof(CallSignature) / 8];
  std::memcpy(words, &signature, sizeof(words));
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

// Never 0. Equal calls have equal digests; different ones differ but for a chance of 2^-32, and
// then the full signature published beside it still tells them apart.
inline uint32_t call_digest(uint64_t epoch, uint64_t hash) {
  return uint32_t(((hash + epoch) * 0xc4ceb9fe1a85ec53u) >> 32) | 1;
}
inline uint32_t call_digest(uint64_t epoch, const CallSignature& signature) {
  return call_digest(epoch, signature_hash(signature));
}

}  // namespace tutti
