// Runs a communicator's collective calls, one at a time: gives each its number, publishes its
// signature, and advances its protocol to the end. A blocking call does all of it in run(); a call
// in flight goes through the stages, of which only complete_and_end() waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/call/call.h"
#include "lib/comm/call_planner.h"
#include "lib/comm/connection.h"
#include "lib/comm/deadlock.h"
#include "lib/comm/failures.h"
#include "lib/comm/protocols.h"
#include "lib/comm/wait_pace.h"
#include "lib/progress/wait.h"

namespace tutti {

// The limit of a wait, put where the program's operators find it.
class LimitForFunctions {
 public:
  LimitForFunctions(Limit** place, uint64_t timeout_ns) : place_(place), limit_(timeout_ns) {
    *place = &limit_;
  }
  ~LimitForFunctions() { *place_ = nullptr; }
  LimitForFunctions(const LimitForFunctions&) = delete;
  LimitForFunctions& operator=(const LimitForFunctions&) = delete;

 private:
  Limit** place_;
  Limit limit_;
};

// One thread at a time, except calls().
class CallRunner {
 public:
  // All outlive this. `own`: the communicator, for the deadlock search.
  CallRunner(const Connection& connection, Failures& failures, deadlock::Member* own)
      : connection_(connection),
        failures_(failures),
        cycle_search_(own, [this](int peer) { return needs(peer); }) {}
  // Once the connection has its link. `seed`: random.
  void open(uint64_t seed);

  CallProtocols& protocols() { return protocols_; }
  const CallProtocols& protocols() const { return protocols_; }
  CallPlanner& planner() { return planner_; }
  const CallPlanner& planner() const { return planner_; }
  // Where the program's operators find the limit of the wait; null outside of waits.
  Limit** limit() { return &limit_; }
  // The number of the last call.
  uint64_t calls() const { return epoch_.load(std::memory_order_relaxed); }
  const CallMark& mark() const { return mark_; }  // of the call that runs, or ran last
  // Later calls are slices of a call of that many elements, on which ranks must agree, too.
  void set_slice_of(uint64_t elements) { slice_of_ = elements; }

  // Runs a call to its end; nothing else may be in flight.
  tutti_status run(const Call& call);

  // Where a schedule may not read or write the caller's buffers it works on copies: from stage_in()
  // to stage_out() `call` is `asked` with the copies' addresses.
  static bool is_staged(const CallPlan& call_plan, const Call& asked) {
    return asked.input_aside || asked.output_aside || call_plan.premultiplies;
  }
  Status stage_in(const CallPlan& call_plan, const Call& asked, Call* call);
  void stage_out(const CallPlan& call_plan, const Call& asked);

  // The stages. `call` and `call_plan` must stay valid until the end. *ended: the call had nothing
  // to exchange, and has ended.
  Status begin(CallPlan& call_plan, const Call& call, bool* ended);
  bool advance(const CallPlan& call_plan);
  bool done(const CallPlan& call_plan);
  Status complete_and_end(const CallPlan& call_plan, const Call& call);
  // To be called again and again while the call waits: shows the others for whom.
  void show_wait(const CallPlan& call_plan, uint64_t now_ns);
  // Ends a call with `ended`, or with the failure that its protocol has found.
  Status end(const CallPlan& call_plan, const Call& call, Status ended);
  // In a handler: ends a call that has started with what was thrown.
  Status end_thrown(const CallPlan& call_plan, const Call& call);

 private:
  tutti_status run(CallPlan& call_plan, const Call& call);
  void run_alone(const CallPlan& call_plan, const Call& call) const;
  // Gives the call its number and its way, and fills mark_, which is then published. *ended: there
  // is one rank, and the call has ended.
  Status number(CallPlan& call_plan, const Call& call, bool* ended);
  // Adds what ranks must agree on besides the CallPlan's signature: slice_of_ and last_result_.
  void add_to_mark();
  const Patience& patience_for(const CallPlan& call_plan) const;
  template <class Protocol, class LinkType>
  Status complete_and_end(Protocol& protocol, LinkType& link, const CallPlan& call_plan,
                          const Call& call);
  template <class Protocol>
  Status end(Protocol& protocol, const CallPlan& call_plan, const Call& call, Status ended);
  Status inspect(uint64_t now_ns);
  // Whether the call that runs cannot end before `peer` has entered it; false where that is not
  // sure.
  bool needs(int peer);
  // In the flight record. The first after the call's own first stores: these are on the way to the
  // peers, and stores become visible in order.
  void enter() {
    if (connection_.record != nullptr)
      entry_ = connection_.record->enter(mark_.epoch, mark_.signature);
  }
  // It has ended well.
  void leave() {
    if (connection_.record != nullptr) connection_.record->leave(entry_);
    failures_.hide_wait(mark_.epoch);
  }
  // A pre-multiplied sum: the call's input becomes its product with the scalar.
  Status scale_input(const CallPlan& call_plan, Call* call);
  // Where a call can go several ways: which it goes, and what ranks tell each other of that.
  void touch_cells();
  void choose_way(CallPlan& call_plan);
  void reserve_for_ways(const CallPlan& call_plan);
  void pause_timing() { moved_ns_ += now_ns() - std::exchange(since_ns_, 0); }
  void finish_trial(const CallPlan& call_plan);
  void time_to_last_end();
  // What all ranks have told of the trial in the call that has ended.
  std::span<const Verdict> heard(const CallPlan& call_plan);
  // What is left to do when a call has ended well (CallPlan::finishes).
  void finish(const CallPlan& call_plan, const Call& call);
  void normalise_lone_vector(const CallPlan& call_plan, const Call& call) const;
  // Of the output; 0 unless all ranks should have the same.
  uint32_t digest_of_result(const CallPlan& call_plan, const Call& call) const;

  const Connection& connection_;
  Failures& failures_;
  CallProtocols protocols_;
  std::atomic<uint64_t> epoch_{0};
  // A hash of the calls so far that a rank can end without having heard from all; it goes into
  // later digests.
  uint64_t history_ = 0;
  CallMark mark_;
  uint32_t entry_ = 0;        // of the call in the flight record
  uint32_t last_result_ = 0;  // a digest of the last call's result, if results are checked
  uint64_t slice_of_ = 0;
  bool cells_touched_ = false;  // before the first call that is timed
  // Of a call that is timed: how long it was moved on, and since when it is, if it is.
  bool timing_ = false;
  uint64_t moved_ns_ = 0, since_ns_ = 0;
  std::vector<Verdict> verdicts_;
  Limit* limit_ = nullptr;
  const CallPlan* waits_in_ = nullptr;  // the call that complete_and_end() waits for
  WaitPace wait_pace_;                  // of showing for whom this rank waits
  CallPlanner planner_{connection_, failures_, protocols_, &limit_};
  deadlock::CycleSearch cycle_search_;
  const Inspect inspect_ = [this](uint64_t now_ns) { return inspect(now_ns); };
  std::vector<std::byte> aside_, products_;
};

}  // namespace tutti
