// Going on after a failure: who has failed, what the others agree on, and their new communicator.
#include <algorithm>
#include <mutex>
#include <utility>

#include "lib/comm/comm.h"
#include "lib/comm/survivor_exchange.h"

namespace tutti {

Survivors& Communicator::survivors() {
  if (survivors_ == nullptr) survivors_ = std::make_unique<Survivors>(connection_);
  return *survivors_;
}

Status Communicator::ready_to_meet() {
  TUTTI_TRY(outside_group());
  const std::string calls = what_is_in_flight();
  if (calls.empty()) return {};
  return {TUTTI_INVALID, calls + "; wait for what you began before survivors meet"};
}

RankSet Communicator::failed_ranks() {
  const std::lock_guard guard(queue_.lock());
  RankSet failed = survivors().failed();
  for (const Status* why : {&failures_.why(), &failures_.last_error()}) {
    const bool of_a_peer = why->code() == TUTTI_PEER_FAILED && why->rank() != rank();
    if (of_a_peer && why->rank() >= 0 && why->rank() < nranks()) failed.add(why->rank());
  }
  return failed;
}

tutti_status Communicator::decide(uint64_t* value, int64_t timeout_ms) {
  if (Status ready = ready_to_meet(); !ready.ok()) return fail(std::move(ready));
  const RankSet all = RankSet::all(nranks());
  Decision verdict;
  Status decided = survivors().decide(
      Matter::agree, all, *value, later_ns(now_ns(), connection_.timeout_ns(timeout_ms)), &verdict);
  if (!decided.ok()) return fail(std::move(decided));
  *value = verdict.value;
  const RankSet missing = all - verdict.present;
  if (missing.empty()) return TUTTI_OK;
  return fail({TUTTI_PEER_FAILED,
               "agreed without " + missing.describe() + " of " + std::to_string(nranks()),
               missing.first()});
}

// Decisions alternate with attempts to make the communicator, until all that are left say that they
// have made it of the same ranks. Who dies in an attempt is missing in the decision after it, or in
// the next.
tutti_status Communicator::shrink(int64_t timeout_ms, std::unique_ptr<Communicator>* out) {
  constexpr int most_attempts = 3;  // of the same ranks
  if (Status ready = ready_to_meet(); !ready.ok()) return fail(std::move(ready));
  if (std::exchange(shrunk_, true))
    return fail({TUTTI_INVALID, "the communicator was shrunk before, or could not be"});
  const uint64_t limit_ns = later_ns(now_ns(), connection_.timeout_ns(timeout_ms));
  if (!over()) abort({TUTTI_ABORTED, rank_name(rank()) + " called tutti_comm_shrink()", rank()});
  RankSet members = RankSet::all(nranks());
  std::unique_ptr<Communicator> made;
  Status attempt;
  for (int attempts = 0;; ++attempts) {
    Decision verdict;
    Status decided =
        survivors().decide(Matter::shrink, members, made != nullptr ? 1 : 0, limit_ns, &verdict);
    if (!decided.ok()) {
      // Nobody has decided anything then.
      if (decided.code() == TUTTI_MISMATCH && members == RankSet::all(nranks())) shrunk_ = false;
      return fail(std::move(decided));
    }
    if (!(verdict.present == members)) attempts = 0;
    if (attempts > 0 && verdict.value == 1) break;
    if (attempts == most_attempts) {
      const Status elsewhere{TUTTI_SYSTEM, "another survivor could not make the new communicator"};
      return fail(attempt.ok() ? elsewhere : attempt);
    }
    members = verdict.present;
    made.reset();
    attempt = make_of_survivors(members, limit_ns, &made);
  }
  survivors().move_on();
  *out = std::move(made);
  return TUTTI_OK;
}

Status Communicator::make_of_survivors(const RankSet& members, uint64_t limit_ns,
                                       std::unique_ptr<Communicator>* out) {
  CommSettings settings = connection_.settings;
  const uint64_t now = now_ns();
  const uint64_t left_ms = (limit_ns > now ? limit_ns - now : 0) / 1'000'000u;
  settings.setup_ms = std::min(settings.setup_ms, int64_t(left_ms / 2) + 1);
  return create(std::make_unique<SurvivorExchange>(survivors(), members), settings, out);
}

}  // namespace tutti
