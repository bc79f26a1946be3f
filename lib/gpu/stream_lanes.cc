#include "lib/gpu/stream_lanes.h"

#include <algorithm>

namespace tutti::plan {

using device::CombineArguments;
using device::Common;
using device::CopyArguments;
using device::Flag;

namespace {

constexpr bool is_message(const Record& record) {
  return record.verb != Verb::copy && record.verb != Verb::reduce;
}

}  // namespace

Status StreamLanes::open(const StreamKernels& kernels, std::unique_ptr<StreamLanes>* out) {
  std::unique_ptr<StreamLanes> made(new StreamLanes(kernels));
  device::Driver& driver = kernels.driver();
  TUTTI_TRY(driver.make_stream(&made->outgoing_.stream));
  TUTTI_TRY(driver.make_stream(&made->incoming_.stream));
  TUTTI_TRY(driver.make_event(&made->forked_));
  TUTTI_TRY(driver.make_event(&made->joined_));
  *out = std::move(made);
  return {};
}

StreamLanes::~StreamLanes() {
  device::Driver& driver = kernels_.driver();
  for (const Lane* lane : {&outgoing_, &incoming_}) {
    for (const device::Event event : lane->events) driver.release_event(event);
    if (lane->stream != nullptr) driver.release_stream(lane->stream);
  }
  for (const device::Event event : {forked_, joined_}) {
    if (event != nullptr) driver.release_event(event);
  }
}

Status StreamLanes::enqueue(const StreamCall& call, const Binding& binding, Address scratch,
                            device::Stream stream) {
  TUTTI_TRY(begin(call, binding, scratch, stream));
  while (!outgoing_.ended() || !incoming_.ended()) {
    bool moved = false;
    TUTTI_TRY(step(&outgoing_, &incoming_, &moved));
    TUTTI_TRY(step(&incoming_, &outgoing_, &moved));
    if (!moved) return {TUTTI_INTERNAL, "the lanes of a plan wait for each other"};
  }
  return end(stream);
}

Status StreamLanes::begin(const StreamCall& call, const Binding& binding, Address scratch,
                          device::Stream stream) {
  call_ = &call;
  binding_ = &binding;
  const Plan& plan = binding.plan();
  if (plan.most_operands > device::most_ranks) {
    return {TUTTI_INTERNAL, "a plan combines more vectors than a kernel takes"};
  }
  // Indexed by Memory.
  bases_[0] = call.input;
  bases_[1] = call.output;
  bases_[2] = scratch;
  bases_[3] = scratch + binding.work_offset();
  const auto reset = [](Lane* lane, const std::vector<Record>& records, const BoundRecord* places) {
    lane->records = &records;
    lane->places = places;
    lane->now = lane->nothing = lane->awaited = {};
    lane->marks.clear();
    lane->message = lane->slice = lane->filled = 0;
    lane->slices.fill(0);
  };
  reset(&outgoing_, plan.outgoing, binding.outgoing());
  reset(&incoming_, plan.incoming, binding.incoming());
  Common common = kernels_.common(call, device::main_lane);
  common.begins = 1;
  TUTTI_TRY(kernels_.signal(common, stream));
  TUTTI_TRY(kernels_.driver().record(forked_, stream));
  TUTTI_TRY(kernels_.driver().wait_event(outgoing_.stream, forked_));
  return kernels_.driver().wait_event(incoming_.stream, forked_);
}

Status StreamLanes::end(device::Stream stream) {
  for (const Lane* lane : {&outgoing_, &incoming_}) {
    TUTTI_TRY(kernels_.driver().record(joined_, lane->stream));
    TUTTI_TRY(kernels_.driver().wait_event(stream, joined_));
  }
  const StreamCall& call = *call_;
  Common common = kernels_.common(call, device::main_lane);
  common.ends = 1;
  const uint32_t self = kernels_.self();
  const Goal goal(call.collective, kernels_.nranks(), call.root);
  const uint32_t chunk = goal.block(self, self);
  uint32_t vectors = 0;
  for (uint32_t r = 0; r < goal.nranks(); ++r) vectors += goal.combines(r, self, chunk);
  const bool gets = goal.gets(self, chunk) && call.output != 0;
  const bool divides = gets && call.averages && vectors > 1;
  const bool lone_truth = gets && call.truth != nullptr && vectors == 1;
  if (!divides && !lone_truth) return kernels_.signal(common, stream);
  CombineArguments arguments;
  arguments.common = common;
  arguments.operands = divides ? 1 : 2;  // x or x
  arguments.outputs = 1;
  arguments.divide_by = divides ? vectors : 0;
  arguments.count = call.count;
  arguments.aside = 0;
  arguments.from[0] = arguments.from[1] = arguments.to[0] = spot_at(call.output);
  return kernels_.combine(divides ? call.combine : call.truth, arguments, call.element_size,
                          stream);
}

// How far the record may get, given how far the other lane has been enqueued.
uint64_t StreamLanes::most_bytes(const Record& record, const BoundRecord& place,
                                 const Lane& other) const {
  if (record.wait <= other.now.records) return place.bytes;
  if (record.follow == 0 || record.wait != other.now.records + 1) return 0;
  const uint64_t most = std::min(place.bytes, other.now.bytes);
  return most - most % call_->element_size;
}

Status StreamLanes::step(Lane* lane, Lane* other, bool* moved) {
  if (lane->ended()) return {};
  const Record& record = (*lane->records)[lane->now.records];
  const BoundRecord& place = lane->places[lane->now.records];
  const uint64_t done = lane->now.bytes, most = most_bytes(record, place, *other);
  if (place.bytes == 0) {
    if (record.wait > other->now.records) return {};
    // A wait for this record is one for what was before it.
    const Progress before = lane->now;
    lane->now = {lane->now.records + 1, 0};
    if (lane->nothing == before) lane->nothing = lane->now;
    if (!lane->marks.empty() && lane->marks.back() == before) lane->marks.back() = lane->now;
    *moved = true;
    return {};
  }
  if (most <= done) return {};
  const bool message = is_message(record);
  if (message && lane->slice == 0) begin_slice(lane);
  const uint64_t bytes = message ? std::min(most - done, lane->slice - lane->filled) : most - done;
  TUTTI_TRY(follow(other, record, done + bytes, lane->stream));
  if (record.verb == Verb::send) {
    TUTTI_TRY(send(record, at(record.from_memory, place.from + done), bytes));
  } else if (message) {
    TUTTI_TRY(receive(record, place, done, bytes));
  } else {
    TUTTI_TRY(work(record, place, done, bytes));
  }
  if (message) count(lane, record.peer, bytes);
  lane->now.bytes += bytes;
  if (lane->now.bytes == place.bytes) lane->now = {lane->now.records + 1, 0};
  *moved = true;
  return other->ended() ? Status() : mark(lane);
}

// Messages are cut at multiples of a slot, because the ranges that they consist of may differ
// between sender and receiver.
void StreamLanes::begin_slice(Lane* lane) const {
  if (lane->message == 0) {
    for (size_t i = lane->now.records; i < lane->records->size(); ++i) {
      const Record& record = (*lane->records)[i];
      if (!is_message(record)) continue;
      if (i != lane->now.records && record.joined == 0) break;
      lane->message += lane->places[i].bytes;
    }
  }
  const uint64_t slot = kernels_.arena().sizes().slot_bytes;
  lane->slice = std::min(lane->message, slot - slot % call_->element_size);
  lane->filled = 0;
}

void StreamLanes::count(Lane* lane, uint32_t peer, uint64_t bytes) const {
  lane->filled += bytes;
  lane->message -= bytes;
  if (lane->filled != lane->slice) return;
  lane->slice = 0;
  ++lane->slices[peer];
}

// One event per slice, so that a stream never waits for more than it must: by way of other ranks,
// that could be a wait for itself.
Status StreamLanes::mark(Lane* lane) {
  const size_t next = lane->marks.size();
  if (next == lane->events.size()) {
    device::Event event = nullptr;
    TUTTI_TRY(kernels_.driver().make_event(&event));
    lane->events.push_back(event);
  }
  lane->marks.push_back(lane->now);
  return kernels_.driver().record(lane->events[next], lane->stream);
}

Status StreamLanes::follow(Lane* other, const Record& record, uint64_t upto,
                           device::Stream stream) {
  if (record.wait == 0) return {};
  const Progress needed =
      record.follow != 0 ? Progress{record.wait - 1, upto} : Progress{record.wait, 0};
  if (!(other->nothing < needed) || !(other->awaited < needed)) return {};
  const auto found = std::lower_bound(other->marks.begin(), other->marks.end(), needed);
  if (found == other->marks.end())
    return {};  // only empty records since the last mark, which is awaited already
  other->awaited = *found;
  return kernels_.driver().wait_event(stream, other->events[size_t(found - other->marks.begin())]);
}

Status StreamLanes::send(const Record& record, Address from, uint64_t bytes) {
  const uint32_t peer = record.peer, set = 1u << peer;
  const uint32_t which = outgoing_.slices[peer] & 1u;
  const Flag empty = which == 0 ? device::empty_0 : device::empty_1;
  if (outgoing_.filled == 0) TUTTI_TRY(kernels_.wait(outgoing_.stream, {{empty, set}}));
  CopyArguments arguments;
  Common& common = arguments.common;
  common = kernels_.common(*call_, device::outgoing_lane);
  common.channel = device::slot_channel + which;
  if (outgoing_.filled + bytes == outgoing_.slice) {
    common.announce = set;
    common.clear[0] = {empty, set};
    common.set[0] = {which == 0 ? device::full_0 : device::full_1, set};
  }
  const Address slot = kernels_.arena().slot(peer, kernels_.self(), which);
  arguments.pieces = 1;
  arguments.piece[0] = {spot_at(from), spot_at(slot, outgoing_.filled), bytes};
  return kernels_.copy(arguments, outgoing_.stream);
}

Status StreamLanes::receive(const Record& record, const BoundRecord& place, uint64_t done,
                            uint64_t bytes) {
  const uint32_t peer = record.peer, set = 1u << peer;
  const uint32_t which = incoming_.slices[peer] & 1u;
  const Flag full = which == 0 ? device::full_0 : device::full_1;
  if (incoming_.filled == 0) TUTTI_TRY(kernels_.wait(incoming_.stream, {{full, set}}));
  Common common = kernels_.common(*call_, device::incoming_lane);
  common.channel = device::slot_channel + which;
  common.check = set;
  if (incoming_.filled + bytes == incoming_.slice) {
    common.clear[0] = {full, set};
    common.set[0] = {which == 0 ? device::empty_0 : device::empty_1, set};
  }
  const Address slot = kernels_.arena().slot(kernels_.self(), peer, which) + incoming_.filled;
  const Address to = at(record.to_memory, place.to + done);
  if (record.verb == Verb::recv) {
    CopyArguments arguments;
    arguments.common = common;
    arguments.pieces = 1;
    arguments.piece[0] = {spot_at(slot), spot_at(to), bytes};
    return kernels_.copy(arguments, incoming_.stream);
  }
  const Address own = at(record.from_memory, place.from + done);
  const bool left = record.side == Side::left;
  CombineArguments arguments;
  arguments.common = common;
  arguments.operands = 2;
  arguments.outputs = 1;
  arguments.divide_by = 0;
  arguments.aside = 0;
  arguments.count = bytes / call_->element_size;
  arguments.from[0] = spot_at(left ? slot : own);
  arguments.from[1] = spot_at(left ? own : slot);
  arguments.to[0] = spot_at(to);
  return kernels_.combine(call_->combine, arguments, call_->element_size, incoming_.stream);
}

// What a rank does with its own memory.
Status StreamLanes::work(const Record& record, const BoundRecord& place, uint64_t done,
                         uint64_t bytes) {
  const Address to = at(record.to_memory, place.to + done);
  const Common common = kernels_.common(*call_, device::incoming_lane);
  if (record.verb == Verb::copy) {
    const Address from = at(record.from_memory, place.from + done);
    if (from == to) return {};
    CopyArguments arguments;
    arguments.common = common;
    arguments.pieces = 1;
    arguments.piece[0] = {spot_at(from), spot_at(to), bytes};
    return kernels_.copy(arguments, incoming_.stream);
  }
  const Operand* operands = binding_->plan().operands.data() + record.from;
  const uint64_t* offsets = binding_->operands() + record.from;
  CombineArguments arguments;
  arguments.common = common;
  arguments.operands = record.operands;
  arguments.outputs = 1;
  arguments.divide_by = 0;
  arguments.aside = 0;
  arguments.count = bytes / call_->element_size;
  for (uint32_t i = 0; i < record.operands; ++i) {
    arguments.from[i] = spot_at(at(operands[i].memory, offsets[i] + done));
  }
  arguments.to[0] = spot_at(to);
  return kernels_.combine(call_->combine, arguments, call_->element_size, incoming_.stream);
}

}  // namespace tutti::plan
