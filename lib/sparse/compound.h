// A collective call that is made of several: they share its deadline, errors name it, and the first
// of them finds out whether all ranks were called alike.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/comm/comm.h"

namespace tutti::sparse {

// What all ranks must pass alike. Sent as raw bytes.
struct Arguments {
  uint64_t length = 0;  // elements of the vector
  uint64_t k = 0;       // of a top-k
  uint32_t dtype = 0;   // built-in ones
  uint32_t op = 0;
  char codec[32] = {};       // name; empty: none
  uint64_t codec_block = 0;  // elements
  uint64_t codec_bytes = 0;  // of one encoded block
  bool operator==(const Arguments&) const = default;
  std::string describe() const;  // "100 float32, sum, k 5"; safe on any bytes
};

// What a rank tells another first.
struct Opening {
  Arguments arguments;
  uint64_t entries = 0;  // that it will send to that rank
  uint64_t room = 0;     // for entries of the result
};

// What memory is for.
enum class Buffer : uint8_t { outgoing, incoming, operands, indices, values, result };

// On all errors, except that the caller has too little room, the communicator is over.
class CompoundCall {
 public:
  CompoundCall(Communicator& c, Compound kind, const CallSettings& settings);

  int rank() const { return c_.rank(); }
  int nranks() const { return c_.nranks(); }
  bool share_memory() const { return c_.share_memory(); }
  // Uninitialised; valid until the next call for the same place. Throws std::bad_alloc.
  template <class T = std::byte>
  T* memory(Buffer buffer, size_t count) {
    return reinterpret_cast<T*>(c_.compound_memory(size_t(buffer), count * sizeof(T)));
  }

  // Collective: `mine` has an opening for each rank, `theirs` gets one from each. MISMATCH on all
  // ranks, which names the arguments of this rank and of another one.
  Status open(std::span<const Opening> mine, std::span<Opening> theirs);
  // Collective: one number of each rank.
  Status allgather(uint64_t mine, std::vector<uint64_t>* all);
  // Collective, blocks of so many bytes, one after the other. `send` of the second may be the
  // block's place in `recv`.
  Status alltoall(const std::byte* send, size_t bytes, std::byte* recv);
  Status allgather(const std::byte* send, size_t bytes, std::byte* recv);
  // The same with blocks of different lengths, which both ends know.
  Status alltoallv(const std::byte* send, std::span<const size_t> sent, std::byte* recv,
                   std::span<const size_t> received);
  Status allgatherv(const std::byte* send, std::byte* recv, std::span<const size_t> lengths);
  // For errors of this rank between these calls.
  Status broken_off(Status status);
  // In a handler: the exception as such an error.
  Status thrown() const { return c_.own_failure(); }

 private:
  Status run(Collective collective, uint64_t count, const void* input, void* output,
             const Blocks* blocks = nullptr, uint64_t lengths = 0);

  Status last_error() const;

  Communicator& c_;
  CallKey key_;  // of the last call
  const uint64_t deadline_ns_;
};

// Runs `body`, which gives a Status, and fails on all ranks when it throws.
template <class Body>
Status attempt(CompoundCall& call, Body&& body) {
  try {
    return body();
  } catch (...) {
    return call.broken_off(call.thrown());
  }
}

}  // namespace tutti::sparse
