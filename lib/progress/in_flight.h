// What moves while its caller does something else: communicators with calls in flight. Whoever
// waits in a call moves the others on too, so that a wait on one communicator cannot hold up
// another; so does the progress thread, where one was asked for.
#pragma once

#include <cstdint>

namespace tutti::in_flight {

// What came of a look at what is in flight, least first.
enum class Moved : uint8_t {
  nothing,
  trickle,  // a stream ran dry: it is better left alone for a while than followed byte by byte
  freely,   // there may be more at once
};

class Member {
 public:
  virtual ~Member() = default;
  // Moves on what is in flight unless another thread is at it. Never blocks. Any thread.
  virtual Moved advance_if_free() = 0;
  // Whether it has anything in flight. Any thread.
  virtual bool busy() const = 0;
};

// Once each; remove() waits until no thread is in the member.
void add(Member* member);
void remove(Member* member);

// Moves every member on; the best of what came of it. Nothing, too, while another thread does so.
Moved advance_all();
// Whether anything is in flight.
bool busy();

// The progress thread exists from the first of these to the last release.
void use_progress_thread();
void release_progress_thread();
bool progress_thread_runs();
// After something was put in flight: the progress thread may be asleep.
void wake_progress_thread();

}  // namespace tutti::in_flight
