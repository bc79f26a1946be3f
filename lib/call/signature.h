// Which call a rank makes: what all ranks of a communicator must agree on, and its digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/schedule/algorithm.h"
#include "tutti/tutti.h"

namespace tutti {

// A call that is made of several collectives.
enum class Compound : uint8_t { none, allreduce_sparse, topk_allreduce, allreduce_coded };

// 32 bytes, no padding: published in shared memory and sent in frames as it stands (little endian).
struct CallSignature {
  uint64_t count = 0;
  int32_t root = 0;        // or, point to point, the tag; of a v form whose block lengths all
                           // ranks know, a digest of them
  uint16_t algorithm = 0;  // index in algorithms(); 0xffff: none
  Collective collective = Collective::allreduce;
  uint8_t dtype = 0;  // tutti_dtype; numbers of the program's own types are of one process only,
  uint8_t op = 0;     // so a fixed code stands for them, as for its operators
  uint8_t flags = 0;  // how it runs, of which compound call it is a part, and v_form
  uint16_t element_size = 0;  // of the program's own types, else 0
  // With TUTTI_CHECK=result: a digest of what the call before this one gave, if all ranks should
  // have the same; else 0. Frames carry it in the digest of the call only.
  uint32_t result = 0;
  uint8_t level = TUTTI_LEVEL_FAST;  // tutti_level
  uint8_t reserved[7] = {};

  static constexpr uint8_t user_dtype = 0xff;
  static constexpr uint8_t premul_sum = 0xfd, commutative_op = 0xfe, ordered_op = 0xff;
  static constexpr uint8_t v_form = 0x80;
  static constexpr uint8_t compound_shift = 4, compound_mask = 0x30;
  void set_types(tutti_dtype dtype, tutti_op op);

  bool operator==(const CallSignature&) const = default;
  // Whether they are the same call, perhaps after different results.
  bool same_call(CallSignature other) const {
    other.result = result;
    return *this == other;
  }
  // "allreduce of 1024 float32, sum, ring"; safe on any bytes.
  std::string describe() const;

 private:
  std::string describe_alone() const;
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

inline uint64_t hash_with(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;
  return hash ^ hash >> 32;
}
inline uint64_t hash_of(std::span<const uint64_t> words) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const uint64_t word : words) hash = hash_with(hash, word);
  return hash;
}

inline uint64_t hash_of_bytes(const std::byte* data, size_t bytes) {
  uint64_t hash = bytes;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = hash_with(hash, word);
  }
  uint64_t last = 0;
  if (bytes != 0) std::memcpy(&last, data, bytes);
  const uint64_t words[] = {hash, last};
  return hash_of(words);
}

// Of all but the count.
inline uint64_t hash_without_count(const CallSignature& signature) {
  uint64_t words[sizeof(CallSignature) / 8];
  std::memcpy(words, &signature, sizeof(words));
  static_assert(offsetof(CallSignature, count) == 0);
  return hash_of(std::span(words).subspan(1));
}
// The part of a digest that is the same for every call like this one.
inline uint64_t signature_hash(const CallSignature& signature) {
  return hash_with(hash_without_count(signature), signature.count);
}

// Never 0. Equal calls have equal digests; different ones differ but for a chance of 2^-32, and
// then the full signature published beside it still tells them apart.
inline uint32_t call_digest(uint64_t epoch, uint64_t hash) {
  return uint32_t(((hash + epoch) * 0xc4ceb9fe1a85ec53u) >> 32) | 1;
}
inline uint32_t call_digest(uint64_t epoch, const CallSignature& signature) {
  return call_digest(epoch, signature_hash(signature));
}

inline uint64_t history_after(uint64_t history, uint64_t epoch, uint64_t hash) {
  return (history ^ (hash + epoch)) * 0xff51afd7ed558ccdu;
}

// What a peer has announced of a call: its digest.
struct Announced {
  int rank = 0;
  uint32_t digest = 0;
};

// For ranks that make the same call after different results of the one before. A link that finds
// such a peer waits a little for what the others announce, so that the rank that is alone can be
// told from the rest.
class ResultMismatch {
 public:
  static constexpr uint64_t patience_ns = 200'000'000;

  // A call begins.
  void forget() { since_ns_ = 0; }
  // MISMATCH: names the rank that is alone, where most ranks agree, else two that differ. OK: wait
  // for the announcements of more of the `nranks`. `now_ns` 0: without waiting.
  Status judge(const CallMark& mark, int self, std::span<const Announced> peers, size_t nranks,
               uint64_t now_ns);

 private:
  uint64_t since_ns_ = 0;  // when the difference was first seen
};

}  // namespace tutti
