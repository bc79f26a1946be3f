// Every path that a call can take: a protocol on memory that the ranks share, or its schedule on
// the link. The simulation (tests/simulation) uses the same file.
#pragma once

#include <memory>

#include "lib/call/call.h"
#include "lib/comm/scheduled.h"
#include "lib/shared_memory/protocols.h"
#include "lib/slots/slot_link.h"

namespace tutti {

// Starts a call in its protocol. All arguments must stay valid until the call has ended.
inline void start(shared::OneHop& one_hop, const CallPlan& call_plan, const Call& call,
                  const CallMark& mark) {
  one_hop.start({&*call_plan.one_hop, &call_plan.kernels, call.input, mark.digest, call.output,
                 call_plan.manner.stores, call_plan.manner.single_copy, call_plan.manner.narrow,
                 call_plan.manner.staged});
}
template <class LinkType>
void start(Scheduled<LinkType>& scheduled, CallPlan& call_plan, const Call& call,
           const CallMark& mark) {
  scheduled.start(call_plan, call, mark.epoch);
}
// Protocols that serve only allreduces.
template <class Allreduce>
void start(Allreduce& allreduce, const CallPlan& call_plan, const Call& call,
           const CallMark& mark) {
  allreduce.start(shared::AllreduceCall{
      call.input, call.output, call_plan.key.count, call_plan.element_size, &call_plan.kernels,
      mark.digest, call_plan.manner.stores, call_plan.manner.narrow, call_plan.manner.single_copy,
      call_plan.manner.staged, call_plan.manner.own_first, call_plan.manner.one_shot,
      call_plan.one_hop ? &*call_plan.one_hop : nullptr});
}

// Whether a call that has just started is done after one look, as nearly every small one is of a
// rank that comes last. A call that is done is not advanced again, also if it has failed.
template <class Protocol>
bool done_at_once(Protocol& protocol, const CallPlan& call_plan) {
  return call_plan.ends_soon && protocol.advance() && protocol.done();
}

class CallProtocols {
 public:
  // `link` outlives this; null for one rank, which has no protocol. `slots`: the link if it is a
  // SlotLink, for the executor's fast form; else null.
  void open(Link* link, slots::SlotLink* slots) {
    link_ = link;
    slots_ = slots;
  }
  // Before the first call, if the link has cells.
  void share(std::unique_ptr<shared::Protocols> shared) { shared_ = std::move(shared); }

  // There is one rank.
  bool alone() const { return link_ == nullptr; }
  shared::Protocols* shared() { return shared_.get(); }
  const shared::Protocols* shared() const { return shared_.get(); }
  Schedules& schedules() { return schedules_; }
  const Schedules& schedules() const { return schedules_; }

  // Calls use(protocol, link) with the types that belong to `path`; nothing else tells protocols
  // apart. There must be more than one rank.
  template <class Use>
  decltype(auto) with(Path path, Use&& use);

  Transfers transfers() const {
    Transfers all = schedules_.transfers();
    return shared_ ? all += shared_->transfers() : all;
  }

 private:
  Link* link_ = nullptr;
  slots::SlotLink* slots_ = nullptr;
  std::unique_ptr<shared::Protocols> shared_;
  Schedules schedules_;
};

template <class Use>
decltype(auto) CallProtocols::with(Path path, Use&& use) {
  if (path == Path::one_hop) [[likely]]
    return use(shared_->one_hop, *slots_);
  if (path == Path::one_shot) return use(shared_->one_shot, *slots_);
  if (path == Path::one_shot_or_direct) return use(shared_->one_shot_or_direct, *slots_);
  if (path == Path::sliced_one_shot) return use(shared_->sliced_one_shot, *slots_);
  if (path == Path::two_level) return use(shared_->two_level, *slots_);
  if (path == Path::two_shot) return use(shared_->two_shot, *slots_);
  if (slots_ != nullptr) return use(Scheduled(schedules_, *slots_), *slots_);
  return use(Scheduled(schedules_, *link_), *link_);
}

}  // namespace tutti
