// Collectives beside computation: begun in the same order on all ranks, moved on by the library's
// progress thread, waited for in that order.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

class Calls {
 public:
  // Begins a call; one that blocks returns an empty request.
  using Begin = std::function<request(const communicator&)>;
  // Collective: makes a communicator from `comm`, whose progress thread should be on. Unless
  // `beside`, a call begins when it is waited for.
  Calls(const communicator& comm, bool beside);
  // Calls that have not ended are aborted, on all ranks.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // The call's number is that of calls since the last clear().
  void start(Begin begin);
  // Notes which have ended. Throws if one has failed.
  void look();
  // Until that call and all before it have ended. Throws if one has failed.
  void wait(size_t number);
  // From when the call could run, the one before it having ended, to when its end was noticed.
  struct Times {
    double begin = 0, end = 0;
  };
  Times times(size_t number) const { return entries_[number].times; }
  // All have been waited for.
  void clear();
  const communicator& comm() const { return comm_; }

 private:
  struct Entry {
    Begin begin;  // until it has begun
    request call;
    Times times;
  };
  void end_next();

  communicator comm_;
  bool beside_;
  std::deque<Entry> entries_;
  size_t ended_ = 0;
};

}  // namespace tutti::train
