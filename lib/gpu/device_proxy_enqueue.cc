// How a call that the host is to make is cut and enqueued.
#include <algorithm>

#include "lib/base/types.h"
#include "lib/gpu/device_proxy.h"

namespace tutti {

using device::Address;
using device::address_of;
using device::Common;
using device::pointer_to;
using device::Stream;

// Decided from what all ranks know.
Status DeviceProxy::cut(const CallKey& key, tutti_level level, Described* out) const {
  out->key = key;
  out->key.level = level;
  out->key.symmetric = false;  // where its memory lies does not matter
  const bool blocks = input_has_blocks(key.collective) || output_has_blocks(key.collective);
  const uint64_t size = dtype_size(key.dtype), n = blocks ? uint64_t(nranks()) : 1;
  out->slice = ProxySlots::bytes / (size * n);
  if (out->slice == 0) {
    return {TUTTI_UNSUPPORTED, "an element of each rank, " + std::to_string(size * n) +
                                   " bytes, is longer than what goes through the host at once, " +
                                   std::to_string(ProxySlots::bytes)};
  }
  out->slices = std::max<uint64_t>(1, (key.count + out->slice - 1) / out->slice);
  return {};
}

Status DeviceProxy::keys_of(const CallKey& key, tutti_level level,
                            std::array<CallKey, 2>* out) const {
  Described described;
  TUTTI_TRY(cut(key, level, &described));
  out->fill(described.key);
  (*out)[0].count = described.count_of(0);
  (*out)[1].count = described.count_of(described.slices - 1);
  return {};
}

const DeviceProxy::Route* DeviceProxy::route_of(const Described& described) const {
  CallKey first = described.key, last = described.key;
  first.count = described.count_of(0);
  last.count = described.count_of(described.slices - 1);
  const bool moves =
      direct_.host != nullptr && direct_.host->can_move(first) && direct_.host->can_move(last);
  return moves ? &direct_ : &staged_;
}

Status DeviceProxy::describe(const CallKey& key, tutti_level level, int64_t timeout_ms,
                             const Described** out) {
  auto made = std::make_unique<Described>();
  TUTTI_TRY(cut(key, level, made.get()));
  made->timeout_ms = timeout_ms;
  for (const auto& known : described_) {
    if (!(known->key == made->key) || known->timeout_ms != timeout_ms) continue;
    *out = known.get();
    return {};
  }
  // The caller's text may be gone when the call is made.
  made->algorithm = key.algorithm;
  made->key.algorithm = made->algorithm;
  made->route = route_of(*made);
  *out = made.get();
  described_.push_back(std::move(made));
  return {};
}

DeviceProxy::Side DeviceProxy::input_side(const Call& call) const {
  const CallKey& key = call.key;
  const uint32_t n = nranks(), self = rank();
  const Goal goal(key.collective, n, uint32_t(key.root));
  if (key.collective == Collective::barrier || !goal.has_input(self)) return {};
  return {goal.input_blocks(), address_of(call.input)};
}

DeviceProxy::Side DeviceProxy::output_side(const Call& call) const {
  const CallKey& key = call.key;
  const uint32_t n = nranks(), self = rank();
  const Goal goal(key.collective, n, uint32_t(key.root));
  if (key.collective == Collective::barrier || !goal.fills_output(self)) return {};
  return {goal.output_blocks(), address_of(call.output)};
}

Status DeviceProxy::enqueue(const Call& call, tutti_level level, int64_t timeout_ms,
                            Stream stream) {
  const Described* described = nullptr;
  TUTTI_TRY(describe(call.key, level, timeout_ms, &described));
  const Side input = input_side(call), output = output_side(call);
  TUTTI_TRY(driver_.record(forked_, stream));
  for (const Stream own : {giving_, taking_}) TUTTI_TRY(driver_.wait_event(own, forked_));
  // take() of a slot is enqueued before the next give() to it.
  for (uint64_t number = 0; number < described->slices + slots; ++number) {
    if (number >= slots && number - slots < described->slices) {
      TUTTI_TRY(take(*described, number - slots, output));
    }
    if (number < described->slices) TUTTI_TRY(give(*described, number, input, output));
  }
  for (const Stream own : {giving_, taking_}) {
    TUTTI_TRY(driver_.record(joined_, own));
    TUTTI_TRY(driver_.wait_event(stream, joined_));
  }
  return {};
}

// The events repeat the order that the flags impose: however the GPU schedules the two streams,
// nothing waits for work that is queued behind it.
Status DeviceProxy::give(const Described& described, uint64_t number, const Side& input,
                         const Side& output) {
  const auto slot = uint32_t(number % slots);
  const ProxySlots& memory = described.route->slots;
  if (number >= slots) TUTTI_TRY(driver_.wait_event(giving_, taken_[slot]));
  const Address place = memory.on_gpu(memory.input(slot));
  TUTTI_TRY(copy_blocks(described, number, input, place, true, giving_));
  if (described.route == &direct_) TUTTI_TRY(give_own(described, number, input, output));
  Common common = common_;
  common.self = slot;
  common.lane = device::outgoing_lane;
  common.channel = device::fused_channel;
  common.entry.digest = address_of(&described);
  common.entry.count = number;
  common.announce = 1;
  common.set[0] = {device::ready_1, 1};
  TUTTI_TRY(signal(common, giving_));
  return driver_.record(given_[slot], giving_);
}

// The block that a rank gets from itself does not go through the network, and the host does not
// access slots on the GPU: so the stream copies it to its place among the others' blocks.
Status DeviceProxy::give_own(const Described& described, uint64_t number, const Side& input,
                             const Side& output) {
  if (input.blocks == 0 || output.blocks == 0) return {};
  const uint64_t size = dtype_size(described.key.dtype), skipped = number * described.slice;
  const uint64_t length = described.count_of(number), block = described.key.count;
  const uint64_t from = (input.blocks > 1 ? rank() * block : 0) + skipped;
  const uint64_t to = output.blocks > 1 ? rank() * length : 0;
  const ProxySlots& memory = described.route->slots;
  const std::byte* const place =
      memory.output(described.key.collective, uint32_t(number % slots)) + to * size;
  return driver_.copy_on(giving_, pointer_to(memory.on_gpu(place)),
                         pointer_to(input.at + from * size), length * size);
}

Status DeviceProxy::take(const Described& described, uint64_t number, const Side& output) {
  const auto slot = uint32_t(number % slots);
  TUTTI_TRY(driver_.wait_event(taking_, given_[slot]));
  const auto* const flag = reinterpret_cast<const std::byte*>(this->flag(device::ready_2, slot));
  const auto* const board = reinterpret_cast<const std::byte*>(board_);
  const Address awaited = board_address_ + uint64_t(flag - board);
  TUTTI_TRY(driver_.wait_flags(taking_, {&awaited, 1}));
  const ProxySlots& memory = described.route->slots;
  const Address place = memory.on_gpu(memory.output(described.key.collective, slot));
  TUTTI_TRY(copy_blocks(described, number, output, place, false, taking_));
  Common common = common_;
  common.self = slot;
  common.lane = device::incoming_lane;
  common.clear[0] = {device::ready_2, 1u << slot};
  TUTTI_TRY(signal(common, taking_));
  return driver_.record(taken_[slot], taking_);
}

// Copies the slice's elements of each block; in the slot they are contiguous.
Status DeviceProxy::copy_blocks(const Described& described, uint64_t number, const Side& side,
                                Address slot, bool to_slot, Stream stream) const {
  const uint64_t size = dtype_size(described.key.dtype);
  const uint64_t bytes = described.count_of(number) * size, block = described.key.count * size;
  const uint64_t blocks = bytes == 0 ? 0 : side.blocks;
  // Whole blocks lie in the slot as in the vector.
  const bool whole = bytes == block;
  for (uint64_t b = 0; b < (whole ? std::min<uint64_t>(blocks, 1) : blocks); ++b) {
    void* const there = pointer_to(side.at + b * block + number * described.slice * size);
    void* const here = pointer_to(slot + b * bytes);
    TUTTI_TRY(driver_.copy_on(stream, to_slot ? here : there, to_slot ? there : here,
                              whole ? blocks * bytes : bytes));
  }
  return {};
}

Status DeviceProxy::signal(const Common& common, Stream stream) const {
  constexpr uint32_t threads = 32;
  return driver_.launch(kernel_, 1, threads, &common, sizeof(common), stream);
}

}  // namespace tutti
