// Every way that a call goes: through memory that the ranks share, or by its schedule on the link.
// The same for the library and for the simulation of it (tests/simulation).
#pragma once

#include <memory>

#include "lib/call/signature.h"
#include "lib/comm/scheduled.h"
#include "lib/shared_memory/protocols.h"
#include "lib/slots/slot_link.h"

namespace tutti {

// How a call becomes that of its protocol. All it is given must stay until the call has ended.
inline void start(shared::OneHop& one_hop, const CallPlan& call_plan, const Call& call,
                  const CallMark& mark) {
  one_hop.start({&*call_plan.one_hop, &call_plan.kernels, call.input, mark.digest, call.output});
}
template <class LinkType>
void start(Scheduled<LinkType>& scheduled, CallPlan& call_plan, const Call& call,
           const CallMark& mark) {
  scheduled.start(call_plan, call, mark.epoch);
}
// Those of allreduces alone.
template <class Allreduce>
void start(Allreduce& allreduce, const CallPlan& call_plan, const Call& call,
           const CallMark& mark) {
  allreduce.start(shared::AllreduceCall{call.input, call.output, call_plan.key.count,
                                        call_plan.element_size, call_plan.kernels, mark.digest});
}

// Whether a call that has just started has ended, with nothing left to do: what nearly every small
// one of a rank does that others are behind or ahead of.
inline bool ends_at_once(shared::OneHop& one_hop, const CallPlan& call_plan) {
  return call_plan.ends_when_done && one_hop.advance() && one_hop.done() && one_hop.failure().ok();
}
template <class Other>
bool ends_at_once(Other&, const CallPlan&) {
  return false;
}

class CallProtocols {
 public:
  // `link` outlives this; null for one rank, which has no protocol. `slots`: the same, when it is
  // one: the executor's fast form.
  void open(Link* link, slots::SlotLink* slots) {
    link_ = link;
    slots_ = slots;
  }
  // Of links that have cells, before the first call.
  void share(std::unique_ptr<shared::Protocols> shared) { shared_ = std::move(shared); }

  // There is one rank.
  bool alone() const { return link_ == nullptr; }
  const shared::Protocols* shared() const { return shared_.get(); }
  Schedules& schedules() { return schedules_; }
  const Schedules& schedules() const { return schedules_; }

  // What tells protocols apart, here alone: use(protocol, link), with the type of each. There is
  // more than one rank.
  template <class Use>
  decltype(auto) with(Path path, Use&& use);
  // `call_plan` and `call` must stay until the call has ended.
  void start(CallPlan& call_plan, const Call& call, const CallMark& mark);

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
  if (path == Path::two_level) return use(shared_->two_level, *slots_);
  if (path == Path::two_shot) return use(shared_->two_shot, *slots_);
  if (slots_ != nullptr) return use(Scheduled(schedules_, *slots_), *slots_);
  return use(Scheduled(schedules_, *link_), *link_);
}

inline void CallProtocols::start(CallPlan& call_plan, const Call& call, const CallMark& mark) {
  with(call_plan.choice.path,
       [&](auto&& protocol, auto&) { tutti::start(protocol, call_plan, call, mark); });
}

}  // namespace tutti
