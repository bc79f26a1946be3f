// A collective call: what its caller asked for; its signature, on which all ranks must agree; and
// the digest by which ranks compare signatures.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/schedule/algorithm.h"
#include "tutti/tutti.h"

namespace tutti {

// A call that is made of several collectives, or what the library does besides (adoption).
enum class Compound : uint8_t { none, allreduce_sparse, topk_allreduce, allreduce_coded, adoption };

// Counts of elements fall into classes, each up to a power of two, so that calls of one class can
// be decided alike: by the model for the largest of them.
constexpr uint32_t size_class(uint64_t count) {
  return count == 0 ? 0 : uint32_t(std::bit_width(count - 1));
}
constexpr uint64_t largest_of_class(uint64_t count) {
  const uint32_t order = size_class(count);
  return order > 63 ? ~uint64_t{0} : uint64_t{1} << order;
}
// A range of counts, of a vector or a block, for which everything is decided alike.
struct Counts {
  uint64_t least = 0, most = 0;
};

// Settings of one call, defaults filled in.
struct CallSettings {
  int64_t timeout_ms = 0;  // 0: the communicator's
  std::string_view algorithm;
  bool unfused = false;
  bool symmetric = false;
  tutti_level level = TUTTI_LEVEL_DEFAULT;  // the communicator's
};

// Lengths and places, in elements, of the blocks of a v form, by rank. Null counts: all blocks are
// equally long, one after the other; null places: one after the other. Without initial values,
// whose cost would be measurable in calls that are not v forms.
struct Blocks {
  const size_t* send_counts;
  const size_t* send_displs;
  const size_t* recv_counts;
  const size_t* recv_displs;
  // For collectives in which a rank knows only the length of its own block.
  uint64_t own;
};

// What determines how a call is prepared.
struct CallKey {
  uint64_t count = 0;    // elements of the vector, or of a block; of a v form of all known blocks
  uint64_t lengths = 0;  // of a v form: a digest of the lengths that all ranks know, never 0
  int32_t root = 0;
  Collective collective = Collective::allreduce;
  tutti_dtype dtype = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  bool unfused = false;
  bool symmetric = false;  // of memory on GPUs
  tutti_level level = TUTTI_LEVEL_DEFAULT;
  Compound part_of = Compound::none;
  std::string_view algorithm;  // empty: chosen
  bool operator==(const CallKey&) const = default;
  // Whether they differ in their size only: in count and lengths.
  bool alike(CallKey other) const {
    if ((lengths != 0) != (other.lengths != 0)) return false;
    other.count = count;
    other.lengths = lengths;
    return *this == other;
  }
};

struct Call {
  CallKey key;
  const std::byte* input = nullptr;  // where the rank has only its own block: that
  std::byte* output = nullptr;     // the same; input == output only where schedules may be in place
  const Blocks* blocks = nullptr;  // of a v form
  bool lengths_agreed = false;     // both ends of each block know its length: none are compared
  // The schedule may not write to the output: it writes to a temporary buffer, which is copied.
  bool output_aside = false;
  // The schedule would overwrite the input: it is copied to a temporary buffer first.
  bool input_aside = false;
  uint64_t aside_count = 0;  // elements that are copied in either case
  int64_t timeout_ms = 0;
};

// A call with the memory that it points to, as a function of the API makes it.
struct MadeCall {
  Call call;
  Blocks blocks;
  std::byte barrier[2];  // what a barrier moves
};

// ---------------------------------------------------------------- signature and digest

// 32 bytes, no padding: published in shared memory and sent in frames as it stands (little endian).
struct CallSignature {
  uint64_t count = 0;
  int32_t root = 0;        // point to point: the tag; v form whose block lengths all ranks know:
                           // a digest of them
  uint16_t algorithm = 0;  // index in algorithms(); 0xffff: none
  Collective collective = Collective::allreduce;
  uint8_t dtype = 0;  // tutti_dtype; the program's own types and operators have a fixed code, since
  uint8_t op = 0;     // their numbers are valid in one process only
  uint8_t flags = 0;  // how it runs, of which compound call it is a part, and v_form
  uint16_t element_size = 0;  // of the program's own types, else 0
  // With TUTTI_CHECK=result: a digest of the result of the call before this one, if all ranks
  // should have the same result; else 0. Frames carry it only as part of the call's digest.
  uint32_t result = 0;
  uint8_t level = TUTTI_LEVEL_FAST;  // tutti_level
  uint8_t reserved[7] = {};

  static constexpr uint8_t user_dtype = 0xff;
  static constexpr uint8_t premul_sum = 0xfd, commutative_op = 0xfe, ordered_op = 0xff;
  static constexpr uint8_t v_form = 0x80;
  static constexpr uint8_t path_mask = 0x07, compound_shift = 3, compound_mask = 0x38;
  static constexpr uint8_t whole_slices = 0x40;  // of one-hop
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
static_assert(size_t(Compound::adoption) <= CallSignature::compound_mask >>
              CallSignature::compound_shift);

// One call of one rank. Epochs count the calls on a communicator from 1; point-to-point messages
// have none (0) and are ordered per pair of ranks.
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

// The hash of all fields but the count.
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

// Never 0. Equal calls have equal digests. Different calls have different digests except with
// probability 2^-32; then the full signatures published beside them still differ.
inline uint32_t call_digest(uint64_t epoch, uint64_t hash) {
  return uint32_t(((hash + epoch) * 0xc4ceb9fe1a85ec53u) >> 32) | 1;
}
inline uint32_t call_digest(uint64_t epoch, const CallSignature& signature) {
  return call_digest(epoch, signature_hash(signature));
}

inline uint64_t history_after(uint64_t history, uint64_t epoch, uint64_t hash) {
  return (history ^ (hash + epoch)) * 0xff51afd7ed558ccdu;
}

// A word in shared memory that announces something: its number, and the digest of its call.
constexpr uint64_t make_flag(uint32_t sequence, uint32_t digest) {
  return uint64_t(sequence) << 32 | digest;
}
constexpr uint32_t flag_sequence(uint64_t flag) { return uint32_t(flag >> 32); }
constexpr uint32_t flag_digest(uint64_t flag) { return uint32_t(flag); }

// What a peer has announced of a call: its digest.
struct Announced {
  int rank = 0;
  uint32_t digest = 0;
};

// For ranks that make the same call, but whose results of the call before differ. A link that finds
// such a peer waits a little for the announcements of the others, so that the error can name the
// rank that is alone with its result.
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
