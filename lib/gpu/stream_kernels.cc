#include "lib/gpu/stream_kernels.h"

#include <algorithm>
#include <array>

namespace tutti::plan {

using device::CombineArguments;
using device::Common;
using device::CopyArguments;

namespace {

constexpr uint32_t threads = 256;
// Four 16-byte loads in flight a thread; more blocks than fill the GPU gain nothing.
constexpr uint64_t bytes_per_thread = 64;
constexpr uint32_t blocks_per_multiprocessor = 4;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): the GPU's
}

}  // namespace

Status StreamKernels::open(Arena& arena, std::unique_ptr<StreamKernels>* out) {
  std::unique_ptr<StreamKernels> made(new StreamKernels(arena));
  device::Info info;
  TUTTI_TRY(arena.driver().info(arena.device(), &info));
  made->most_blocks_ =
      std::max(1u, blocks_per_multiprocessor * static_cast<uint32_t>(info.multiprocessors));
  TUTTI_TRY(arena.driver().kernel("tutti_copy", &made->copy_));
  Common& common = made->common_;
  common.self = arena.rank();
  common.own = at<device::Board>(arena.board(arena.rank()));
  common.report = at<device::Report>(arena.report_address());
  for (uint32_t rank = 0; rank < arena.nranks(); ++rank) {
    common.boards[rank] = at<device::Board>(arena.board(rank));
    if (rank != arena.rank()) made->others_ |= 1u << rank;
  }
  *out = std::move(made);
  return {};
}

Common StreamKernels::common(const StreamCall& call, uint32_t lane) const {
  Common common = common_;
  common.entry = call.entry;
  common.lane = lane;
  common.timeout_ms = call.timeout_ms;
  return common;
}

uint32_t StreamKernels::blocks_for(uint64_t bytes) const {
  const uint64_t blocks = (bytes + threads * bytes_per_thread - 1) / (threads * bytes_per_thread);
  return uint32_t(std::clamp<uint64_t>(blocks, 1, most_blocks_));
}

Status StreamKernels::copy(const CopyArguments& arguments, device::Stream stream) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < arguments.pieces; ++i) bytes += arguments.piece[i].bytes;
  return driver().launch(copy_, blocks_for(bytes), threads, &arguments, sizeof(arguments), stream);
}

Status StreamKernels::combine(device::Kernel kernel, const CombineArguments& arguments,
                              uint32_t element_size, device::Stream stream) const {
  return driver().launch(kernel, blocks_for(arguments.count * element_size), threads, &arguments,
                         sizeof(arguments), stream);
}

Status StreamKernels::signal(const Common& common, device::Stream stream) const {
  CopyArguments arguments;
  arguments.common = common;
  arguments.pieces = 0;
  return copy(arguments, stream);
}

Status StreamKernels::wait(device::Stream stream,
                           std::initializer_list<device::FlagSet> sets) const {
  std::array<Address, device::most_ranks> flags;
  size_t filled = 0;
  for (const device::FlagSet& set : sets) {
    for (uint32_t rank = 0; rank < nranks(); ++rank) {
      if ((set.ranks >> rank & 1) == 0) continue;
      if (filled == flags.size()) {
        TUTTI_TRY(driver().wait_flags(stream, flags));
        filled = 0;
      }
      flags[filled++] = arena_.flag(device::Flag(set.flag), rank);
    }
  }
  return filled == 0 ? Status() : driver().wait_flags(stream, {flags.data(), filled});
}

}  // namespace tutti::plan
