// Deadlocks across communicators: rank 0 waits in a call on A for rank 1, which waits in a call on
// B for rank 0; or longer circles.
//
// A thread that is blocked in a collective on X posts, on every other communicator that only it
// uses and that has nothing in flight, a note: the last call that it has entered there, and a label
// that no other wait has. Until the wait ends it enters no call there. So a rank that is blocked on
// such a communicator, in a later call that cannot end without the one that posted (Needs), waits
// for that wait: it adds the labels of the note to those in its own notes. A rank that finds its
// own label in such a note waits for itself.
//
// Whoever reads a label need not know how old the note is. While the wait that a label was made for
// goes on, each wait that the label was handed through still goes on too, for it waits for it,
// directly or not.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>

#include "lib/base/status.h"
#include "lib/call/note.h"
#include "transports/transport.h"

namespace tutti::deadlock {

// Something of the calling thread's that no other thread has while it lives.
inline const void* this_thread() { return __builtin_thread_pointer(); }

// A communicator of the process. Any thread asks it these, one at a time.
class Member {
 public:
  virtual ~Member() = default;
  // Whether no call can begin on it, or go on, while `thread` is blocked elsewhere; `alone`: the
  // process has no other thread.
  virtual bool rests_with(const void* thread, bool alone) const = 0;
  // note.entered is the member's to fill in.
  virtual void post(Note note) = 0;

 private:
  friend class CircleSearch;
  uint64_t label_ = 0;  // of the wait that it has a note of
  const pid_t pid_ = getpid();
};

// Once each; after remove() no thread is in the member.
void add(Member* member);
void remove(Member* member);

// Whether the call that runs cannot end before that rank has entered it.
using Needs = std::function<bool(int peer)>;

// The blocked wait that a communicator is in, if any; used by the thread that waits.
class CircleSearch {
 public:
  CircleSearch(Member* own, Needs needs) : own_(own), needs_(std::move(needs)) {}

  // The communicator's ranks. `seed`: random.
  void open(int rank, int nranks, uint64_t seed) {
    rank_ = rank;
    nranks_ = nranks;
    seed_ = seed;
  }
  // To be called again and again while the rank is blocked in the call `mark` on `link`. MISMATCH
  // when it has been part of a circle for a second.
  Status look(const Link& link, const CallMark& mark, uint64_t now_ns);
  // Whether it is part of one as far as is known, and then the sentence.
  bool in_circle(const CallMark& mark) const { return circle_ns_ != 0 && mark.epoch == epoch_; }
  Status circle(const CallMark& mark);
  // Whether there are notes of the wait; then leave() when it ends. Where it ends for being in a
  // circle they stay, so that the others in it, who are about to find it, do.
  bool posted() const { return posted_; }
  void leave();

 private:
  void start(const CallMark& mark, uint64_t now_ns);
  // The own label and those of the waits that this rank waits for. Whether a peer's note has the
  // own one.
  bool gather(const Link& link, const CallMark& mark, Note* note);
  void post(const Note& note);

  Member* own_;
  Needs needs_;
  int rank_ = 0;
  int nranks_ = 0;
  uint64_t seed_ = 0;
  uint64_t epoch_ = 0;  // of the call that the wait is in
  uint64_t label_ = 0;
  bool alone_ = false;
  bool posted_ = false;
  bool found_ = false;  // a circle
  uint64_t started_ns_ = 0;
  uint64_t looked_ns_ = 0;
  uint64_t circle_ns_ = 0;  // since when there has been a circle; 0: there is none
  int closing_peer_ = -1;   // whose note closes it
  Note closing_note_;
};

}  // namespace tutti::deadlock
