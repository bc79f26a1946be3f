// The one service thread of a process that has communicators on GPUs: a GPU that waits for another
// reports nothing, so this thread checks every few milliseconds whether there is a reason to stop
// waiting. It exists from the first add() to the last remove(); a process that forks has it in the
// parent only.
#pragma once

#include <cstdint>

namespace tutti::service_thread {

class Watched {
 public:
  virtual ~Watched() = default;
  // Never blocks. Neither adds nor removes.
  virtual void look() = 0;
};

// Once each; after remove() the thread is no longer in look(). Not to be called from look().
void add(Watched* watched);
void remove(Watched* watched);

}  // namespace tutti::service_thread
