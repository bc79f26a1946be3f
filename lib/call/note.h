// For the wait-for graph: what a blocked rank posts. On the communicator that it is blocked on it
// says for whom it waits (lib/comm/call_runner.h), so that who runs out of time names the rank that
// keeps all others waiting. On its others, on which it enters no call until that wait ends, it
// posts labels (lib/comm/deadlock.h). A rank that was refused a call, for a wrong argument, posts
// why, for those that wait for it. Posted through links (transports/transport.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "lib/call/call.h"

namespace tutti {

// No padding: published in shared memory as it stands, where it is zeros at first.
struct Note {
  static constexpr size_t most_labels = 9;

  uint64_t entered = 0;     // the last call that the rank has entered where the note is posted
  uint64_t epoch = 0;       // the call that it is blocked in; in a message: the call before
  CallSignature signature;  // of that call
  uint32_t awaited = 0;     // 1 + the rank that is waited for, where the note is posted; 0: unknown
  uint32_t count = 0;       // of labels
  // Blocked waits, each with a number that no other has: first the rank's own, then some of those
  // that it waits for, directly or not.
  std::array<uint64_t, most_labels> all_labels{};
  // Why the call after `entered` was refused, ends with a zero where there is room, zeros behind
  // it; then the rank waits for nothing.
  std::array<char, 120> why_refused{};

  bool operator==(const Note&) const = default;
  bool empty() const { return count == 0 && awaited == 0 && why_refused[0] == 0; }
  int waits_for() const { return int(awaited) - 1; }
  // Safe on any bytes.
  std::span<const uint64_t> labels() const {
    return {all_labels.data(), std::min<size_t>(count, most_labels)};
  }
  // Safe on any bytes.
  std::string_view refusal() const {
    return {why_refused.data(), ::strnlen(why_refused.data(), why_refused.size())};
  }
  void set_refusal(std::string_view why) {
    why.copy(why_refused.data(), why_refused.size());
    // Nothing that a terminal would obey.
    for (char& c : why_refused) {
      if (c != 0 && (uint8_t(c) < ' ' || c == 0x7f)) c = ' ';
    }
  }
};
static_assert(sizeof(Note) == 248);

}  // namespace tutti
