// What all calls on a communicator's GPU are made of: kernels, whose arguments say what to do and
// which flags to clear and set (lib/device/abi.h), and waits for flags, both in the order of a
// stream.
#pragma once

#include <initializer_list>
#include <memory>

#include "lib/device/abi.h"
#include "lib/device/driver.h"
#include "lib/schedule/goal.h"
#include "transports/arena.h"

namespace tutti::plan {

using device::Address;

// A collective on memory of the GPU, as it is enqueued.
struct StreamCall {
  Collective collective = Collective::allreduce;
  uint32_t root = 0;
  Address input = 0, output = 0;  // 0: this rank has none
  uint64_t count = 0;             // elements of the vector, or of a block
  uint32_t element_size = 1;
  device::Kernel combine = nullptr;  // of the operator; null: nothing is combined
  device::Kernel truth = nullptr;    // makes 0 or 1 of vectors that are combined with nothing
  bool averages = false;             // `combine` sums, and what comes out is divided
  bool one_shot = false;             // allreduce: every rank combines the whole vectors
  // All ranks' vectors can be reached where they are, so the call goes in one piece.
  bool one_piece = false;
  uint64_t timeout_ms = 0;
  device::Entry entry{};  // all but the places
};

class StreamKernels {
 public:
  static Status open(Arena& arena, std::unique_ptr<StreamKernels>* out);

  Arena& arena() const { return arena_; }
  device::Driver& driver() const { return arena_.driver(); }
  uint32_t self() const { return arena_.rank(); }
  uint32_t nranks() const { return arena_.nranks(); }
  // The set of the other ranks.
  uint32_t others() const { return others_; }

  // Arguments common to the call's kernels, with nothing to announce, check, clear or set.
  device::Common common(const StreamCall& call, uint32_t lane) const;

  Status copy(const device::CopyArguments& arguments, device::Stream stream) const;
  Status combine(device::Kernel kernel, const device::CombineArguments& arguments,
                 uint32_t element_size, device::Stream stream) const;
  // A kernel that only announces, clears and sets.
  Status signal(const device::Common& common, device::Stream stream) const;
  // Makes the stream wait until all flags that these ranks set on this rank's board are set.
  Status wait(device::Stream stream, std::initializer_list<device::FlagSet> sets) const;

 private:
  explicit StreamKernels(Arena& arena) : arena_(arena) {}
  uint32_t blocks_for(uint64_t bytes) const;

  Arena& arena_;
  device::Common common_{};  // what is the same in all calls
  device::Kernel copy_ = nullptr;
  uint32_t others_ = 0;
  uint32_t most_blocks_ = 1;
};

// What lies at `address` on this rank.
inline device::Spot spot_at(Address address, uint64_t offset = 0) {
  return {.address = address, .offset = offset, .rank = 0, .block = 0};
}
// Relative to the place that the entry of `rank` gives.
inline device::Spot spot_of(uint32_t rank, uint32_t block, uint64_t offset) {
  return {.address = 0, .offset = offset, .rank = rank, .block = block};
}

}  // namespace tutti::plan
