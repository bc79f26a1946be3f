// Communicators with calls in flight, which move while their callers do something else. A thread
// that waits in a call advances the other communicators too, so that a wait on one cannot hold up
// another; so does the progress thread, where the program asked for one.
#pragma once

#include <cstdint>

#include "lib/base/status.h"

namespace tutti::in_flight {

// What advancing the calls in flight has moved, least first.
enum class Moved : uint8_t {
  nothing,
  trickle,  // a stream ran dry: polling it for every few bytes would waste the processor
  freely,   // there may be more at once
};

class Member {
 public:
  virtual ~Member() = default;
  // Advances what is in flight, unless another thread does so now. Never blocks. Any thread.
  virtual Moved advance_if_free() = 0;
  // Whether it has anything in flight. Any thread.
  virtual bool busy() const = 0;
};

// To be called once each for a member; remove() waits until no thread is in the member.
void add(Member* member);
void remove(Member* member);

// Advances every member and returns the most that one has moved; nothing, too, while another thread
// does so.
Moved advance_all();
// Whether anything is in flight.
bool busy();

// The progress thread exists from the first use to the last release.
// An error: it cannot be started.
Status use_progress_thread();
void release_progress_thread();
bool progress_thread_runs();
// To be called after something was put in flight: the progress thread may be asleep.
void wake_progress_thread();

}  // namespace tutti::in_flight
