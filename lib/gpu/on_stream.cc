#include "lib/gpu/on_stream.h"

#include <algorithm>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

using device::CombineArguments;
using device::Common;
using device::CopyArguments;
using device::Place;
using device::Spot;

namespace {

constexpr uint64_t cut_bytes = 16;  // shares and slices are multiples of it, for wide accesses

uint64_t unit_of(uint32_t element_size) { return std::max<uint64_t>(1, cut_bytes / element_size); }

bool overlap(Address a, uint64_t a_bytes, Address b, uint64_t b_bytes) {
  return a != 0 && b != 0 && a < b + b_bytes && b < a + a_bytes;
}

Status not_symmetric(uint32_t rank, const char* vector) {
  return {TUTTI_INVALID,
          std::string("the call is said to be symmetric, but the ") + vector + " of rank " +
              std::to_string(rank) +
              " is not in memory that tutti_mem_alloc_device() or tutti_mem_register_device() has "
              "made known",
          int(rank)};
}

}  // namespace

// Where this rank's vectors are, for itself and for the others.
struct OnStream::Vectors {
  bool has_input = false;
  bool stages = false;  // the input
  uint32_t blocks = 1;  // of the input
  Place input{}, output{};
  uint64_t slice = 0;  // elements of a block
};

struct OnStream::Slice {
  const StreamCall& call;
  const Vectors& vectors;
  device::Entry entry;  // with places
  uint64_t at;          // the first element, of each block
  uint64_t count;
  bool first, last;

  uint64_t offset() const { return at * call.element_size; }
  uint64_t bytes() const { return count * call.element_size; }
  uint64_t block_bytes() const { return call.count * call.element_size; }
  // The allreduce in two hops.
  bool two_shot() const { return call.collective == Collective::allreduce && !call.one_shot; }
};

Status OnStream::look_at(const StreamCall& call, Vectors* out) const {
  const Arena& arena = kernels_.arena();
  const uint32_t n = kernels_.nranks();
  const uint64_t block = call.count * call.element_size;
  const Goal goal(call.collective, n, call.root);
  const bool multiple = input_has_blocks(call.collective);
  out->blocks = goal.input_blocks();
  out->has_input =
      call.count != 0 && call.collective != Collective::barrier && goal.has_input(kernels_.self());
  const uint64_t in_bytes = block * out->blocks;
  const uint64_t out_bytes = block * goal.output_blocks();
  const bool reached = out->has_input && arena.find(call.input, in_bytes, &out->input);
  const bool gets = call.count != 0 && call.output != 0;
  if (!gets || !arena.find(call.output, out_bytes, &out->output)) out->output = {};
  if (call.one_piece) {
    if (out->has_input && !reached) return not_symmetric(kernels_.self(), "input");
    if (gets && out->output.region == device::no_region) {
      return not_symmetric(kernels_.self(), "output");
    }
  }
  const bool overwritten =
      overwrites_input(call.collective) && overlap(call.input, in_bytes, call.output, out_bytes);
  out->stages = out->has_input && (!reached || overwritten || call.one_shot);
  // A rank does not know whether the others are in place, so collectives that overwrite their input
  // in place always go in slices.
  out->slice = call.count;
  if (!call.one_piece || overwrites_input(call.collective)) {
    const uint64_t unit = unit_of(call.element_size);
    const uint64_t most = arena.sizes().staging_bytes / (uint64_t(n) * call.element_size);
    const uint64_t fits = multiple ? most : most * n;
    out->slice = std::min(out->slice, std::max(unit, fits / unit * unit));
  }
  return {};
}

Status OnStream::enqueue(const StreamCall& call, device::Stream stream) const {
  if (kernels_.nranks() == 1) return alone(call, stream);
  const Arena& arena = kernels_.arena();
  Vectors vectors;
  TUTTI_TRY(look_at(call, &vectors));
  uint64_t at = 0;
  do {
    const uint64_t count = std::min(vectors.slice, call.count - at);
    const bool last = at + count == call.count;
    Slice slice{call, vectors, call.entry, at, count, at == 0, last};
    if (vectors.stages) {
      slice.entry.input = arena.staging_place(0);
      slice.entry.input.stride = slice.bytes();
    } else if (vectors.has_input) {
      slice.entry.input = vectors.input;
      slice.entry.input.offset += slice.offset();
      slice.entry.input.stride = slice.block_bytes();
    }
    if (slice.two_shot() && vectors.output.region != device::no_region) {
      slice.entry.output = vectors.output;
      slice.entry.output.offset += slice.offset();
    }
    TUTTI_TRY(publish(slice, stream));
    TUTTI_TRY(slice.two_shot() ? combine_share(slice, stream) : use(slice, stream));
    TUTTI_TRY(finish(slice, stream));
    at += count;
  } while (at < call.count);
  return {};
}

// One rank: its output is its input.
Status OnStream::alone(const StreamCall& call, device::Stream stream) const {
  Vectors vectors;
  vectors.has_input = call.count != 0 && call.collective != Collective::barrier;
  const Slice slice{call, vectors, call.entry, 0, call.count, true, true};
  Common common = kernels_.common(call, device::main_lane);
  common.begins = common.ends = 1;
  return combine_or_copy(slice, common, stream);
}

// First kernel: puts the input where the entry says, and notifies the others.
Status OnStream::publish(const Slice& slice, device::Stream stream) const {
  const StreamCall& call = slice.call;
  CopyArguments arguments;
  Common& common = arguments.common;
  common = kernels_.common(call, device::main_lane);
  common.entry = slice.entry;
  common.channel = device::fused_channel;
  common.announce = kernels_.others();
  common.clear[0] = {device::free_1, kernels_.others()};
  common.set[0] = {device::ready_1, kernels_.others()};
  common.begins = slice.first ? 1 : 0;
  arguments.pieces = 0;
  if (slice.vectors.stages) {
    const Address staging = kernels_.arena().staging(kernels_.self());
    arguments.pieces = slice.vectors.blocks;
    for (uint32_t b = 0; b < slice.vectors.blocks; ++b) {
      arguments.piece[b] = {spot_at(call.input, b * slice.block_bytes() + slice.offset()),
                            spot_at(staging, b * slice.bytes()), slice.bytes()};
    }
  }
  return kernels_.copy(arguments, stream);
}

// Second kernel, in one hop: makes what this rank gets.
Status OnStream::use(const Slice& slice, device::Stream stream) const {
  const StreamCall& call = slice.call;
  const uint32_t others = kernels_.others();
  TUTTI_TRY(kernels_.wait(stream, {{device::ready_1, others}}));
  Common common = kernels_.common(call, device::main_lane);
  common.entry = slice.entry;
  common.channel = device::fused_channel;
  common.check = others;
  common.clear[0] = {device::ready_1, others};
  common.set[0] = {device::free_1, others};
  return combine_or_copy(slice, common, stream);
}

Status OnStream::combine_or_copy(const Slice& slice, const Common& common,
                                 device::Stream stream) const {
  CombineArguments combined;
  if (const device::Kernel kernel = add_operands(slice, &combined); kernel != nullptr) {
    combined.common = common;
    return kernels_.combine(kernel, combined, slice.call.element_size, stream);
  }
  CopyArguments copied;
  copied.common = common;
  add_pieces(slice, &copied);
  return kernels_.copy(copied, stream);
}

Spot OnStream::input_of(const Slice& slice, uint32_t rank, uint32_t block) const {
  if (rank != kernels_.self()) return spot_of(rank, block, 0);
  return spot_at(slice.call.input, block * slice.block_bytes() + slice.offset());
}

void OnStream::add_pieces(const Slice& slice, CopyArguments* out) const {
  const StreamCall& call = slice.call;
  const uint32_t n = kernels_.nranks(), self = kernels_.self();
  out->pieces = 0;
  const auto add = [&](uint32_t rank, uint32_t block, uint32_t to_block) {
    const Spot from = input_of(slice, rank, block);
    const Spot to = spot_at(call.output, to_block * slice.block_bytes() + slice.offset());
    const bool there = from.address != 0 && from.address + from.offset == to.address + to.offset;
    if (!there && slice.count != 0) out->piece[out->pieces++] = {from, to, slice.bytes()};
  };
  // Another kernel combines, unless there is one rank.
  if (reduces(call.collective) && n > 1) return;
  const Goal goal(call.collective, n, call.root);
  for (uint32_t r = 0; r < n; ++r) {
    const uint32_t block = goal.block(r, self);
    if (!goal.gets(self, block) || !goal.combines(r, self, block)) continue;
    // In place, the own block of a gather is there already: add() skips it.
    add(r, goal.input_blocks() == 1 ? 0 : self, goal.output_blocks() == 1 ? 0 : r);
  }
}

// The kernel that combines them; null where this rank combines nothing.
device::Kernel OnStream::add_operands(const Slice& slice, CombineArguments* out) const {
  const StreamCall& call = slice.call;
  const uint32_t n = kernels_.nranks(), self = kernels_.self();
  if (call.combine == nullptr || slice.count == 0) return nullptr;
  if (n == 1 && call.truth == nullptr) return nullptr;
  const Goal goal(call.collective, n, call.root);
  const uint32_t block = goal.block(self, self), end = goal.combined(self);
  if (!goal.gets(self, block)) return nullptr;
  out->operands = end;
  for (uint32_t r = 0; r < end; ++r) out->from[r] = input_of(slice, r, block);
  out->divide_by = call.averages && end > 1 ? end : 0;
  const bool lone = end == 1 && call.truth != nullptr;
  if (lone) {  // x or x
    out->operands = 2;
    out->from[1] = out->from[0];
  }
  out->outputs = 1;
  out->to[0] = spot_at(call.output, slice.offset());
  out->count = slice.count;
  out->aside = 0;
  return lone ? call.truth : call.combine;
}

// Second kernel, in two hops: combines this rank's share of all inputs and writes it to all ranks.
Status OnStream::combine_share(const Slice& slice, device::Stream stream) const {
  const StreamCall& call = slice.call;
  const uint32_t n = kernels_.nranks(), self = kernels_.self(), others = kernels_.others();
  TUTTI_TRY(kernels_.wait(stream, {{device::ready_1, others}, {device::free_2, others}}));
  CombineArguments arguments;
  Common& common = arguments.common;
  common = kernels_.common(call, device::main_lane);
  common.entry = slice.entry;
  common.channel = device::fused_channel;
  common.check = others;
  common.clear[0] = {device::ready_1, others};
  common.clear[1] = {device::free_2, others};
  common.set[0] = {device::free_1, others};
  common.set[1] = {device::ready_2, others};
  const schedule::ChunkMap shares(slice.count, n, unit_of(call.element_size));
  const uint64_t begin = shares.begin(self) * call.element_size;
  arguments.operands = arguments.outputs = n;
  arguments.divide_by = call.averages ? n : 0;
  arguments.count = shares.size(self);
  arguments.aside = call.one_piece ? 0 : kernels_.arena().results(self);
  for (uint32_t r = 0; r < n; ++r) {
    const bool own = r == self;
    arguments.from[r] = own ? spot_at(call.input, slice.offset() + begin) : spot_of(r, 0, begin);
    arguments.to[r] = own ? spot_at(call.output, slice.offset() + begin) : spot_of(r, 0, begin);
  }
  return kernels_.combine(call.combine, arguments, call.element_size, stream);
}

// Third kernel, behind a wait until no rank reads this rank's input any more. In two hops it
// fetches the shares that the others could not write to this rank's output.
Status OnStream::finish(const Slice& slice, device::Stream stream) const {
  const StreamCall& call = slice.call;
  const uint32_t n = kernels_.nranks(), self = kernels_.self(), others = kernels_.others();
  CopyArguments arguments;
  Common& common = arguments.common;
  common = kernels_.common(call, device::main_lane);
  common.ends = slice.last ? 1 : 0;
  arguments.pieces = 0;
  if (!slice.two_shot()) {
    TUTTI_TRY(kernels_.wait(stream, {{device::free_1, others}}));
    return kernels_.copy(arguments, stream);
  }
  TUTTI_TRY(kernels_.wait(stream, {{device::ready_2, others}, {device::free_1, others}}));
  common.clear[0] = {device::ready_2, others};
  common.set[0] = {device::free_2, others};
  if (slice.entry.output.region == device::no_region) {
    const schedule::ChunkMap shares(slice.count, n, unit_of(call.element_size));
    for (uint32_t r = 0; r < n; ++r) {
      if (r == self || shares.size(r) == 0) continue;
      const uint64_t at = slice.offset() + shares.begin(r) * call.element_size;
      arguments.piece[arguments.pieces++] = {spot_at(kernels_.arena().results(r)),
                                             spot_at(call.output, at),
                                             shares.size(r) * call.element_size};
    }
  }
  return kernels_.copy(arguments, stream);
}

}  // namespace tutti::plan
