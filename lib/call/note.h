// For the wait-for graph: what a blocked rank posts. On the communicator that it is blocked on it
// says for whom it waits (lib/comm/call_runner.h), so that who runs out of time names the rank that
// keeps all others waiting. On its others, on which it enters no call until that wait ends, it
// posts labels (lib/comm/deadlock.h). Posted through links (transports/transport.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "lib/call/call.h"

namespace tutti {

// 128 bytes, no padding: published in shared memory as it stands, where it is zeros at first.
struct Note {
  static constexpr size_t most_labels = 9;

  uint64_t entered = 0;     // the last call that the rank has entered where the note is posted
  uint64_t epoch = 0;       // the call that it is blocked in
  CallSignature signature;  // of that call
  uint32_t awaited = 0;     // 1 + the rank that is waited for, where the note is posted; 0: unknown
  uint32_t count = 0;       // of labels
  // Blocked waits, each with a number that no other has: first the rank's own, then some of those
  // that it waits for, directly or not.
  std::array<uint64_t, most_labels> all_labels{};

  bool operator==(const Note&) const = default;
  bool empty() const { return count == 0 && awaited == 0; }
  int waits_for() const { return int(awaited) - 1; }
  // Safe on any bytes.
  std::span<const uint64_t> labels() const {
    return {all_labels.data(), std::min<size_t>(count, most_labels)};
  }
};
static_assert(sizeof(Note) == 128);

}  // namespace tutti
