// For the wait-for graph: what a rank that is blocked on one communicator posts on its others, on
// which it enters no call until that wait ends. Posted through links
// (transports/transport.h), made and read by lib/comm/deadlock.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "lib/call/call.h"

namespace tutti {

// 128 bytes, no padding: published in shared memory as it stands.
struct Note {
  static constexpr size_t most_labels = 9;

  uint64_t entered = 0;     // the last call that the rank has entered where the note is posted
  uint64_t epoch = 0;       // the call that it is blocked in
  CallSignature signature;  // of that call
  uint64_t count = 0;       // of labels; 0: no note
  // Blocked waits, each with a number that no other has: first the rank's own, then some of those
  // that it waits for, directly or not.
  std::array<uint64_t, most_labels> all_labels{};

  bool operator==(const Note&) const = default;
  bool empty() const { return count == 0; }
  // Safe on any bytes.
  std::span<const uint64_t> labels() const {
    return {all_labels.data(), std::min<size_t>(count, most_labels)};
  }
};
static_assert(sizeof(Note) == 128);

}  // namespace tutti
