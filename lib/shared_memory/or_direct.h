// One-shot or two-shot, unless all ranks' vectors lie in memory that the others reach: then direct
// access (direct.h), which gives the same bits. No rank knows beforehand what the others pass: a
// rank that could go direct posts so and waits; as soon as it sees a peer stage, it stages too.
#pragma once

#include "lib/base/transfers.h"
#include "lib/shared_memory/direct.h"
#include "lib/shared_memory/staging.h"
#include "lib/shared_memory/two_shot.h"

namespace tutti::shared {

template <class Staged>
class OrDirect {
 public:
  OrDirect(Staging& staging, Direct& direct)
      : staging_(staging), direct_(direct), staged_(staging) {}

  void start(const AllreduceCall& call) {
    staging_.begin_call();
    staged_.enter(call);
    if (call.bytes() > staging_.tuning().staged_bytes && direct_.announce(call, staging_.turn())) {
      call_ = call;
      route_ = Route::meeting;
      direct_done_ = false;
      failure_ = {};
      return;
    }
    route_ = Route::staged;
    staged_.stage();
  }
  bool advance() {
    if (route_ != Route::staged) [[unlikely]]
      return route_ == Route::meeting ? meet() : advance_direct();
    return staged_.advance();
  }
  bool done() const { return route_ == Route::staged ? staged_.done() : direct_done_; }
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  const Status& failure() const { return failure_; }
  // The call has failed: takes back where this rank's vectors lie, if that was posted.
  void withdraw() {
    if (route_ != Route::staged) direct_.withdraw();
  }
  // The lowest peer whose flag is missing, -1 if none.
  int waits_for();
  int needs() { return waits_for(); }
  // Of all completed calls: what their schedules send and receive.
  Transfers transfers() const {
    Transfers all = staged_.transfers();
    return all += transfers_;
  }
  uint64_t direct_calls() const { return direct_calls_; }

 private:
  enum class Route : uint8_t { staged, meeting, direct };

  // Whether it is decided now if the call goes direct.
  bool meet();
  bool advance_direct();

  Staging& staging_;
  Direct& direct_;
  Staged staged_;
  AllreduceCall call_;  // set where the call may go direct
  Route route_ = Route::staged;
  bool direct_done_ = false;
  uint64_t direct_calls_ = 0;
  Transfers transfers_;  // of direct calls
  Status failure_;
};

template <class Staged>
bool OrDirect<Staged>::meet() {
  bool all = true;
  for (uint32_t rank = 0; rank < staging_.nranks(); ++rank) {
    if (rank == staging_.self() || direct_.announced(rank)) continue;
    if (staged_.staged_at(rank)) {
      route_ = Route::staged;
      staged_.stage();
      return true;
    }
    all = false;
  }
  if (!all) return false;
  route_ = Route::direct;
  ++direct_calls_;
  failure_ = direct_.begin();
  direct_done_ = !failure_.ok();
  return true;
}

template <class Staged>
bool OrDirect<Staged>::advance_direct() {
  if (direct_done_)
    return false;  // it may have failed: then the peers must not hear that it is done
  const bool moved = direct_.advance();
  direct_done_ = direct_.done();
  if (direct_done_) count_two_shot(call_, staging_.nranks(), staging_.self(), &transfers_);
  return moved;
}

template <class Staged>
int OrDirect<Staged>::waits_for() {
  if (route_ == Route::staged) return staged_.waits_for();
  for (uint32_t rank = 0; rank < staging_.nranks() && !direct_done_; ++rank) {
    if (rank == staging_.self()) continue;
    if (!(route_ == Route::meeting ? direct_.announced(rank) : direct_.finished(rank))) {
      return int(rank);
    }
  }
  return -1;
}

}  // namespace tutti::shared
