#include "lib/record/read.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "lib/base/printable.h"

namespace tutti::record {

namespace {

constexpr int64_t most_ranks = int64_t{1} << 30;

// A part of the file, taken in one go.
template <class Part>
Part take(std::span<const std::byte> bytes, size_t at) {
  Part part;
  std::memcpy(static_cast<void*>(&part), bytes.data() + at, sizeof(part));
  return part;
}

// A word that whoever writes the file stores when a part is complete. Files are mapped, and parts
// of them aligned, but a fuzzer's bytes need not be.
uint32_t word(std::span<const std::byte> bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  std::atomic_thread_fence(std::memory_order_acquire);
  return value;
}

template <size_t n>
std::string text_of(const char (&from)[n]) {
  return printable(std::string(from, strnlen(from, n)));
}

// From the writer's clock to the world's. Damaged times may be anything; none is negative, so that
// the difference of two of them is a number.
int64_t at(uint64_t ns, int64_t offset) {
  return ns == 0 ? 0 : std::max<int64_t>(0, int64_t(ns + uint64_t(offset)));
}

std::optional<ReadCall> read_call(std::span<const std::byte> bytes, size_t place, uint32_t index,
                                  int64_t offset) {
  const uint32_t tail = word(bytes, place + offsetof(Entry, tail));
  const auto entry = take<Entry>(bytes, place);
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint32_t sequence = word(bytes, place + offsetof(Entry, sequence));
  const State state = State(tail & 3);
  if (sequence == 0 || sequence % ring_entries != index || state == State::none ||
      tail != tail_of(sequence, state)) {
    return {};
  }
  ReadCall call;
  const bool messages = (entry.call & message_bit) != 0;
  call.number = messages ? 0 : entry.call;
  call.peer = messages ? int(entry.call & 0x7fffffff) : -1;
  call.sends = (entry.call & sends_bit) != 0;
  call.signature = entry.signature;
  call.state = state;
  call.entered_ns = at(entry.entered_ns, offset);
  call.left_ns = at(entry.left_ns, offset);
  call.sequence = sequence;
  return call;
}

ReadWait read_wait(std::span<const std::byte> bytes, size_t place, int64_t offset) {
  const uint32_t turn = word(bytes, place + offsetof(Wait, turn));
  const auto wait = take<Wait>(bytes, place);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (turn % 2 != 0 || turn != word(bytes, place + offsetof(Wait, turn))) return {};
  return {wait.sequence,
          wait.peer,
          at(wait.since_ns, offset),
          at(wait.seen_ns, offset),
          text_of(wait.link),
          text_of(wait.addresses)};
}

ReadFailure read_failure(std::span<const std::byte> bytes, size_t place, int64_t offset) {
  if (word(bytes, place + offsetof(Failure, set)) == 0) return {};
  const auto failure = take<Failure>(bytes, place);
  const bool known = failure.code > TUTTI_OK && failure.code <= TUTTI_INTERNAL;
  return {known ? tutti_status(failure.code) : TUTTI_INTERNAL, failure.rank, failure.call,
          at(failure.at_ns, offset), text_of(failure.text)};
}

std::optional<ReadComm> read_comm(std::span<const std::byte> bytes, size_t place, int64_t offset) {
  const auto use = Use(word(bytes, place + offsetof(CommHeader, use)));
  if (use != Use::live && use != Use::freed) return {};
  const auto header = take<CommHeader>(bytes, place);
  if (header.nranks < 2 || header.nranks > most_ranks || header.rank >= header.nranks) return {};
  ReadComm comm;
  comm.id = header.id;
  comm.rank = int(header.rank);
  comm.nranks = int(header.nranks);
  comm.freed = use == Use::freed;
  comm.made_ns = at(header.made_ns, offset);
  comm.freed_ns = at(header.freed_ns, offset);
  comm.transport = text_of(header.transport);
  comm.wait = read_wait(bytes, place + offsetof(CommHeader, wait), offset);
  comm.failure = read_failure(bytes, place + offsetof(CommHeader, failure), offset);
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < comm.nranks; };
  if (!is_rank(comm.wait.peer)) comm.wait.peer = -1;
  if (!is_rank(comm.failure.rank)) comm.failure.rank = -1;
  for (uint32_t i = 0; i < ring_entries; ++i) {
    auto call = read_call(bytes, place + offsetof(Slot, ring) + i * sizeof(Entry), i, offset);
    if (call) comm.calls.push_back(*call);
  }
  // Numbers of calls may have passed 2^32.
  if (!comm.calls.empty()) {
    const uint32_t base = comm.calls.front().sequence;
    std::sort(comm.calls.begin(), comm.calls.end(), [base](const ReadCall& a, const ReadCall& b) {
      return int32_t(a.sequence - base) < int32_t(b.sequence - base);
    });
  }
  return comm;
}

}  // namespace

std::string ReadCall::describe() const {
  if (number != 0) return "call " + std::to_string(number) + ", " + signature.describe();
  if (peer == any_rank) return "a " + signature.describe() + ", from any rank";
  return "a " + signature.describe() + (sends ? ", to rank " : ", from rank ") +
         std::to_string(peer);
}

const ReadCall* ReadComm::last() const {
  const auto found = std::find_if(calls.rbegin(), calls.rend(),
                                  [](const ReadCall& call) { return call.number != 0; });
  return found == calls.rend() ? nullptr : &*found;
}

const ReadCall* ReadComm::open() const {
  const ReadCall* found = nullptr;
  for (const ReadCall& call : calls) {
    if (call.state == State::left) continue;
    if (wait_of(call) != nullptr) return &call;
    if (found == nullptr) found = &call;
  }
  return found;
}

int64_t ReadProcess::latest_ns() const {
  int64_t latest = 0;
  for (const ReadComm& comm : comms) {
    latest = std::max({latest, comm.made_ns, comm.freed_ns, comm.wait.seen_ns, comm.failure.at_ns});
    for (const ReadCall& call : comm.calls)
      latest = std::max({latest, call.entered_ns, call.left_ns});
  }
  return latest;
}

Status read(std::span<const std::byte> bytes, const std::string& name, ReadProcess* out) {
  if (bytes.size() < header_bytes)
    return {TUTTI_CORRUPT, name + " is no flight record: it is too short"};
  const auto header = take<FileHeader>(bytes, 0);
  if (header.magic == 0)
    return {TUTTI_CORRUPT,
            name + " is an empty flight record: its process ended while it began it"};
  if (header.magic == __builtin_bswap64(magic))
    return {TUTTI_CORRUPT, name + " is a flight record of a machine with another byte order"};
  if (header.magic != magic) return {TUTTI_CORRUPT, name + " is no flight record"};
  if (header.version != version || header.library != library_version()) {
    return {TUTTI_CORRUPT, name +
                               " is a flight record of another version of tutti, whose doctor "
                               "can read it"};
  }
  const size_t room = (bytes.size() - header_bytes) / slot_bytes;
  if (header.slots > std::min<size_t>(room, most_slots)) {
    return {TUTTI_CORRUPT, name + " is cut off: it should have " + std::to_string(header.slots) +
                               " communicators, but has room for " + std::to_string(room)};
  }
  ReadProcess process;
  process.process = header.process;
  process.host = text_of(header.host);
  process.program = text_of(header.program);
  process.device = header.device;
  process.inode = header.inode;
  process.ended_in_order = header.ended == Ended::in_order;
  process.unrecorded = header.unrecorded;
  for (uint32_t i = 0; i < header.slots; ++i) {
    auto comm = read_comm(bytes, header_bytes + i * slot_bytes, header.realtime_ns);
    if (comm) process.comms.push_back(std::move(*comm));
  }
  *out = std::move(process);
  return {};
}

}  // namespace tutti::record
