// One-shot, in one piece or in slices, or two-shot, unless all ranks get at all vectors where they
// lie: mapped (direct.h), or by letting the kernel copy (copied.h), which give the same bits. No
// rank knows beforehand what the others pass: a rank whose vectors can be got at posts so and
// waits; as soon as it sees a peer stage, it stages too.
#pragma once

#include "lib/base/transfers.h"
#include "lib/shared_memory/copied.h"
#include "lib/shared_memory/direct.h"
#include "lib/shared_memory/staging.h"
#include "lib/shared_memory/two_shot.h"

namespace tutti::shared {

// The ways without staging; all protocols that have them use the same objects.
struct Unstaged {
  Unstaged(FlagLines& flags, const Regions& regions, SingleCopy& single_copy, const Tuning& tuning)
      : rendezvous(flags),
        direct(flags, regions, rendezvous, tuning),
        copied(flags, rendezvous, single_copy, tuning) {}
  Unstaged(const Unstaged&) = delete;
  Unstaged& operator=(const Unstaged&) = delete;

  Rendezvous rendezvous;
  Direct direct;
  Copied copied;
};

template <class Staged>
class OrDirect {
 public:
  OrDirect(Staging& staging, Unstaged& unstaged, Staged staged)
      : staging_(staging), unstaged_(unstaged), staged_(std::move(staged)) {}

  void start(const AllreduceCall& call) {
    staging_.begin_call();
    staged_.enter(call);
    if (call.bytes() > staging_.tuning().staged_bytes && !call.staged && post(call)) {
      call_ = call;
      route_ = Route::rendezvous;
      done_ = false;
      failure_ = {};
      return;
    }
    route_ = Route::staged;
    staged_.stage();
  }
  bool advance() {
    if (route_ != Route::staged) [[unlikely]]
      return route_ == Route::rendezvous ? meet() : advance_unstaged();
    return staged_.advance();
  }
  bool done() const { return route_ == Route::staged ? staged_.done() : done_; }
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  const Status& failure() const { return failure_; }
  // The call has failed: takes back where this rank's vectors lie, if that was posted.
  void withdraw() {
    if (route_ != Route::staged) unstaged_.direct.withdraw();
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
  enum class Route : uint8_t { staged, rendezvous, direct, copied };

  bool post(const AllreduceCall& call) {
    Rendezvous::Places mine;
    mine.is_mapped = unstaged_.direct.prepare(call, staging_.turn(), &mine.input, &mine.output);
    mine.is_copied =
        call.bytes() >= staging_.tuning().single_copy_bytes && unstaged_.copied.is_possible(call);
    if (mine.is_mapped == 0 && mine.is_copied == 0) return false;
    mine.input_address = reinterpret_cast<uintptr_t>(call.input);
    mine.output_address = reinterpret_cast<uintptr_t>(call.output);
    mine.one_shot = call.one_shot && call.input != call.output;
    unstaged_.rendezvous.post(mine, staging_.turn(), call.digest);
    return true;
  }
  // Whether it is decided now how the call goes.
  bool meet();
  bool advance_unstaged();

  Staging& staging_;
  Unstaged& unstaged_;
  Staged staged_;
  AllreduceCall call_;  // set where the call may go without staging
  Route route_ = Route::staged;
  bool done_ = false;  // an unstaged call
  uint64_t direct_calls_ = 0;
  Transfers transfers_;  // of unstaged calls
  Status failure_;
};

template <class Staged>
bool OrDirect<Staged>::meet() {
  bool all = true;
  for (uint32_t rank = 0; rank < staging_.nranks(); ++rank) {
    if (rank == staging_.self() || unstaged_.rendezvous.posted(rank)) continue;
    if (staged_.staged_at(rank)) {
      route_ = Route::staged;
      staged_.stage();
      return true;
    }
    all = false;
  }
  if (!all) return false;
  switch (unstaged_.rendezvous.outcome()) {
    case Rendezvous::Outcome::staged:
      route_ = Route::staged;
      staged_.stage();
      break;
    case Rendezvous::Outcome::mapped:
      route_ = Route::direct;
      ++direct_calls_;
      failure_ = unstaged_.direct.begin();
      done_ = !failure_.ok();
      break;
    case Rendezvous::Outcome::copied:
      route_ = Route::copied;
      unstaged_.copied.begin(call_, staging_.turn());
      break;
  }
  return true;
}

template <class Staged>
bool OrDirect<Staged>::advance_unstaged() {
  if (done_) return false;  // it may have failed: then the peers must not hear that it is done
  bool moved = false;
  if (route_ == Route::direct) {
    moved = unstaged_.direct.advance();
    done_ = unstaged_.direct.done();
  } else {
    moved = unstaged_.copied.advance();
    done_ = unstaged_.copied.done();
    if (done_) failure_ = unstaged_.copied.failure();
  }
  if (done_ && failure_.ok())
    count_two_shot(call_, staging_.nranks(), staging_.self(), &transfers_);
  return moved;
}

template <class Staged>
int OrDirect<Staged>::waits_for() {
  if (route_ == Route::staged) return staged_.waits_for();
  if (done_) return -1;
  if (route_ == Route::direct) return unstaged_.direct.waits_for();
  if (route_ == Route::copied) return unstaged_.copied.waits_for();
  return unstaged_.rendezvous.waits_for();
}

}  // namespace tutti::shared
