#include "trainer/calls.h"

#include <algorithm>

#include "trainer/timeline.h"

namespace tutti::train {

Calls::Calls(const communicator& comm, bool beside)
    : comm_(comm.dup()), beside_(beside && comm.size() > 1) {}

Calls::~Calls() {
  if (ended_ < entries_.size()) comm_.abort("the trainer ends");
}

void Calls::start(Begin begin) {
  entries_.emplace_back();
  Entry& entry = entries_.back();
  entry.times.begin = now();
  if (beside_)
    entry.call = begin(comm_);
  else
    entry.begin = std::move(begin);
}

void Calls::look() {
  while (beside_ && ended_ < entries_.size() && entries_[ended_].call.test()) end_next();
}

void Calls::wait(size_t number) {
  while (ended_ <= number) {
    Entry& entry = entries_[ended_];
    if (entry.begin) {
      entry.times.begin = now();
      entry.call = entry.begin(comm_);
    }
    entry.call.wait();
    end_next();
  }
}

void Calls::end_next() {
  Times& times = entries_[ended_].times;
  times.end = now();
  if (ended_ > 0) times.begin = std::max(times.begin, entries_[ended_ - 1].times.end);
  ++ended_;
}

void Calls::clear() {
  entries_.clear();
  ended_ = 0;
}

}  // namespace tutti::train
