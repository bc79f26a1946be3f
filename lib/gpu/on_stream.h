// Collectives on the memory of GPUs in one hop, or two for a long allreduce: each rank says where
// its input lies, the others read it there and write what they make of it. Everything is enqueued:
// kernels, and waits for flags between them (lib/device/abi.h).
//
// Where the others cannot reach a rank's vector, or it will be overwritten while they read it, the
// rank copies it into its arena first, in slices if it is longer than the room there. Each rank
// decides that for itself; how many slices there are follows from what all ranks know.
//
// One-shot implements all-to-all; two-shot the algorithm of that name; the others direct or flat.
#pragma once

#include <cstdint>

#include "lib/gpu/stream_kernels.h"

namespace tutti::plan {

class OnStream {
 public:
  explicit OnStream(const StreamKernels& kernels) : kernels_(kernels) {}

  // All ranks enqueue the same calls in the same order. INVALID if the call is to go in one piece
  // and the others cannot reach this rank's vectors.
  Status enqueue(const StreamCall& call, device::Stream stream) const;

 private:
  struct Vectors;
  struct Slice;
  Status look_at(const StreamCall& call, Vectors* out) const;
  Status alone(const StreamCall& call, device::Stream stream) const;
  // The three kernels of a slice, with the waits before each.
  Status publish(const Slice& slice, device::Stream stream) const;
  Status use(const Slice& slice, device::Stream stream) const;
  Status combine_share(const Slice& slice, device::Stream stream) const;
  Status finish(const Slice& slice, device::Stream stream) const;
  // Combines or copies the inputs, in one hop: one kernel, which handles the flags in `common`.
  Status combine_or_copy(const Slice& slice, const device::Common& common,
                         device::Stream stream) const;
  void add_pieces(const Slice& slice, device::CopyArguments* out) const;
  device::Kernel add_operands(const Slice& slice, device::CombineArguments* out) const;
  device::Spot input_of(const Slice& slice, uint32_t rank, uint32_t block) const;

  const StreamKernels& kernels_;
};

}  // namespace tutti::plan
