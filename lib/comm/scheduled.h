// Calls that run by their schedules: the records of plans on a link (lib/plan/run.h). Where only
// the two ends of each block know its length, the lengths are exchanged first, by the same
// schedule.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/call/call.h"
#include "lib/comm/call_plan.h"
#include "lib/plan/run.h"
#include "lib/shared_memory/protocols.h"

namespace tutti {

// The plans of a communicator, and the call that runs.
class Schedules {
 public:
  // `group_size`: of two-level's groups. `copy_only`: only the link may access vectors.
  void open(uint32_t rank, uint32_t nranks, uint32_t group_size, bool copy_only,
            const Tuning& tuning) {
    run_ = plan::Run(tuning.executor_piece_bytes);
    rank_ = rank;
    nranks_ = nranks;
    group_size_ = group_size;
    copy_only_ = copy_only;
  }

  // Finds or makes it. Throws std::bad_alloc.
  CachedPlan* plan_for(const Algorithm& algorithm, int root, plan::Chunks chunks,
                       schedule::Bracketing bracketing);

  // So that calls by that plan, of up to key.count elements, allocate nothing. While no call runs.
  void reserve(CachedPlan& cached, const CallKey& key, uint32_t element_size);

  // The call that starts next then tells all ranks `word`, by that plan of an allgather, and ends
  // once it has heard theirs; while no call runs.
  void reserve_words(CachedPlan& allgather);
  void tell_after(CachedPlan& allgather, uint64_t word) {
    allgather_ = &allgather;
    told_ = word;
  }
  // What the ranks have told in such a call that has ended, by rank.
  std::span<const uint64_t> heard() const { return heard_; }

  // `call_plan` and `call` must stay valid until the end; `epoch` is the call's number.
  void start(CallPlan& call_plan, const Call& call, uint64_t epoch);
  template <class LinkType>
  bool advance(LinkType& link) {
    if (done_) return true;  // it has failed
    const bool moved = run_.advance(link);
    if (run_.done()) [[unlikely]]
      run_has_ended();
    return moved;
  }
  bool done() const { return done_; }
  const Status& failure() const { return failure_; }
  int waits_for() const {
    const int from = run_.waits_to_receive_from();
    return from >= 0 ? from : run_.waits_to_send_to();
  }
  int waits_to_receive_from() const { return run_.waits_to_receive_from(); }
  const Transfers& transfers() const { return run_.transfers(); }
  bool ran_dry() const { return run_.ran_dry(); }

 private:
  // What a run is for.
  enum class Part : uint8_t { lengths, call, words };

  Status start_call();
  // One part has ended; the next may begin.
  void run_has_ended();
  void bind(CachedPlan& cached, const CallKey& key, uint32_t element_size, const Call& call);
  Status start_plan(CachedPlan& cached, const Kernels& kernels, const std::byte* input,
                    std::byte* output);
  void average() const;
  // Starts the exchange of block lengths; compare_lengths() is its end.
  Status start_lengths();
  Status compare_lengths() const;
  Status start_words();

  uint32_t rank_ = 0, nranks_ = 1, group_size_ = 2;
  bool copy_only_ = false;
  std::vector<std::unique_ptr<CachedPlan>> plans_;

  CallPlan* call_plan_ = nullptr;
  const Call* call_ = nullptr;
  uint64_t epoch_ = 0;
  bool done_ = true;
  Part part_ = Part::call;
  Status failure_;
  plan::Run run_;
  std::vector<uint64_t> own_lengths_, peer_lengths_;  // known here; received from peers
  CachedPlan* allgather_ = nullptr;                   // of words that are told after the call
  uint64_t told_ = 0;
  std::vector<uint64_t> heard_;
  plan::Extents extents_;  // of the last call of blocks
  std::vector<std::byte> scratch_;
};

// The same as a protocol, on a link whose type is known to the inner loops.
template <class LinkType>
class Scheduled {
 public:
  Scheduled(Schedules& schedules, LinkType& link) : schedules_(schedules), link_(link) {}
  void start(CallPlan& call_plan, const Call& call, uint64_t epoch) {
    schedules_.start(call_plan, call, epoch);
  }
  bool advance() { return schedules_.advance(link_); }
  bool done() const { return schedules_.done(); }
  const Status& failure() const { return schedules_.failure(); }
  void withdraw() {}
  int waits_for() const { return schedules_.waits_for(); }
  // The rank that the call cannot end without. Never one that it only sends to: what is sent may
  // fit into buffers.
  int needs() const { return schedules_.waits_to_receive_from(); }
  const Transfers& transfers() const { return schedules_.transfers(); }

 private:
  Schedules& schedules_;
  LinkType& link_;
};

static_assert(shared::Protocol<Scheduled<Link>>);

}  // namespace tutti
