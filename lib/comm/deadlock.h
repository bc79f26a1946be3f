// Deadlocks across communicators: rank 0 waits in a call on A for rank 1, which waits in a call on
// B for rank 0; or a longer cycle of the wait-for graph.
//
// A thread that is blocked in a collective on X posts a note on every other communicator that only
// it uses and that has nothing in flight. The note has the number of the last call that the rank
// has entered there and a label that no other wait has. Until the wait ends the rank enters no call
// there. So a rank that is blocked on such a communicator, in a later call that cannot end without
// the rank that posted the note (Needs), waits for that wait: this is an edge of the graph, and the
// rank adds the labels of the note to those in its own notes. A rank that finds its own label in
// such a note waits for itself.
//
// The age of a note does not matter. While the wait that a label was made for goes on, so does each
// wait that passed the label on, because that wait depends on the first, directly or not.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/base/status.h"
#include "lib/call/note.h"
#include "transports/transport.h"

namespace tutti::deadlock {

// Identifies the calling thread; no other thread has it while this one lives.
inline const void* this_thread() { return __builtin_thread_pointer(); }

// A communicator of the process. Any thread may call these, one at a time.
class Member {
 public:
  virtual ~Member() = default;
  // Whether no call can begin on it, or go on, while `thread` is blocked elsewhere; `alone`: the
  // process has no other thread.
  virtual bool rests_with(const void* thread, bool alone) const = 0;
  // The member fills in note.entered.
  virtual void post(Note note) = 0;

 private:
  friend class CycleSearch;
  uint64_t label_ = 0;  // of the wait whose note is posted on it
};

// Once each; after remove() no thread is in the member.
void add(Member* member);
void remove(Member* member);

// Whether the call that runs cannot end before that rank has entered it.
using Needs = std::function<bool(int peer)>;

// The blocked wait that a communicator is in, if any; used by the thread that waits.
class CycleSearch {
 public:
  CycleSearch(Member* own, Needs needs) : own_(own), needs_(std::move(needs)) {}

  // The communicator's ranks. `seed`: random.
  void open(int rank, int nranks, uint64_t seed) {
    rank_ = rank;
    nranks_ = nranks;
    seed_ = seed;
  }
  // To be called again and again while the rank is blocked in the call `mark` on `link`. MISMATCH
  // when it has been part of a cycle for a second.
  Status look(const Link& link, const CallMark& mark, uint64_t now_ns);
  // Whether the rank is part of a cycle, as far as is known; cycle() is the error then.
  bool in_cycle(const CallMark& mark) const { return cycle_ns_ != 0 && mark.epoch == epoch_; }
  Status cycle(const CallMark& mark);
  // Whether notes of the wait are posted; then leave() must be called when it ends. If it ends
  // because of a cycle the notes stay, so that the other ranks in the cycle find it, too.
  bool posted() const { return posted_; }
  void leave();

 private:
  void start(const CallMark& mark, uint64_t now_ns);
  // Fills `note` with the own label and those of the waits that this rank waits for. Whether a
  // peer's note has the own label.
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
  bool found_ = false;  // a cycle
  uint64_t started_ns_ = 0;
  uint64_t looked_ns_ = 0;
  uint64_t cycle_ns_ = 0;  // since when there has been a cycle; 0: there is none
  int closing_peer_ = -1;  // whose note closes it
  Note closing_note_;
};

}  // namespace tutti::deadlock
