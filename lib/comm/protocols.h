// Every way that a call goes: through memory that the ranks share, or by its schedule on the link.
// The same for the library and for the simulation of it (tests/simulation).
#pragma once

#include <memory>

#include "lib/call/signature.h"
#include "lib/comm/scheduled.h"
#include "lib/shared_memory/protocols.h"
#include "lib/slots/slot_link.h"

namespace tutti {

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

  shared::Protocols* shared() { return shared_.get(); }
  const shared::Protocols* shared() const { return shared_.get(); }
  Schedules& schedules() { return schedules_; }
  const Schedules& schedules() const { return schedules_; }

  // `call_plan` and `call` must stay until the call has ended.
  void start(CallPlan& call_plan, const Call& call, const CallMark& mark);
  // What tells protocols apart, here alone: use(protocol, link), with the type of each.
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

inline void CallProtocols::start(CallPlan& call_plan, const Call& call, const CallMark& mark) {
  if (call_plan.choice.path == Path::schedule) return schedules_.start(call_plan, call, mark.epoch);
  if (call_plan.choice.path == Path::one_hop) {
    return shared_->one_hop.start(
        {&call_plan.one_hop, &call_plan.kernels, call.input, mark.digest, call.output});
  }
  const shared::AllreduceCall allreduce{call.input,          call.output,
                                        call_plan.key.count, call_plan.element_size,
                                        call_plan.kernels,   mark.digest};
  if (call_plan.choice.path == Path::one_shot) {
    shared_->one_shot.start(allreduce);
  } else if (call_plan.choice.path == Path::two_level) {
    shared_->two_level.start(allreduce);
  } else {
    shared_->two_shot.start(allreduce);
  }
}

template <class Use>
decltype(auto) CallProtocols::with(Path path, Use&& use) {
  switch (path) {
    case Path::one_shot:
      return use(shared_->one_shot, *slots_);
    case Path::two_level:
      return use(shared_->two_level, *slots_);
    case Path::two_shot:
      return use(shared_->two_shot, *slots_);
    case Path::one_hop:
      return use(shared_->one_hop, *slots_);
    case Path::schedule:
      break;
  }
  if (slots_ != nullptr) return use(Scheduled(schedules_, *slots_), *slots_);
  return use(Scheduled(schedules_, *link_), *link_);
}

}  // namespace tutti
