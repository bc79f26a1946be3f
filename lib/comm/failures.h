// What has gone wrong on a communicator: its caller's last error, and why it is over.
#pragma once

#include <atomic>
#include <string>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/comm/connection.h"

namespace tutti {

class GpuFront;

// One thread at a time, except abort() and over().
class Failures {
 public:
  explicit Failures(const Connection& connection) : connection_(connection) {}
  // The communicator's calls on a GPU, which fail with it; null: none, or none any more.
  void watch(GpuFront* gpu) { gpu_ = gpu; }

  // Keeps `status` as the last error and returns its code.
  tutti_status fail(Status status);
  // The last failure of a call, with its full sentence; OK if none failed.
  const Status& last_error() const { return last_error_; }

  // Failed or aborted: no further call. Any thread.
  bool over() const { return over_.load(std::memory_order_relaxed); }
  // Why, once a call of this rank has met the failure; else OK.
  const Status& why() const { return why_; }
  // Any thread; never block. The second leaves the GPU to its caller.
  void abort(const Status& why);
  void abort_link(const Status& why);

  // A running call has failed: the communicator is over, for all ranks. The first reason is kept.
  void break_down(Status status, const CallSignature& signature, uint64_t call);
  void break_down(Status status, const std::string& where, uint64_t call,
                  const CallSignature* signature = nullptr);
  // The same, and keeps the reason as the last error.
  tutti_status give_up(Status status, const CallSignature& signature, uint64_t call) {
    break_down(std::move(status), signature, call);
    return fail(why_);
  }
  tutti_status give_up(Status status, const std::string& where) {
    break_down(std::move(status), where, 0);
    return fail(why_);
  }
  // Something outside of calls has found the failure, and has notified the peers.
  void adopt(Status why);

  // In a handler: what the exception says, in this rank's name.
  Status own_failure() const noexcept;
  // The error of a call that waited for `peer`; -1: unknown. `call` 0: a message.
  Status timed_out(int peer, uint64_t call) const noexcept;
  // Of a receive that waited for any rank.
  Status timed_out_for_any() const noexcept;

 private:
  // The rank that `peer`, for which this one waits in the call, waits for, directly or through
  // others, and that waits for none or is stopped; *through: how many ranks are between the two.
  int root_of_wait(int peer, uint64_t call, int* through) const;
  // Its process is, as far as this rank can see.
  bool is_stopped(int rank) const;
  // The lowest rank of this host whose process is stopped, -1 if none.
  int stopped_rank() const;
  // Adds that the call was refused to a rank that has not entered it, or entered another. Null
  // signature: this rank's own is not known.
  void add_refusal(uint64_t call, const CallSignature* signature, Status* status) const;
  Status of_stopped(std::string text, int stopped, uint64_t call) const;
  std::string describe_latest(int rank, bool waited_for_directly, uint64_t call) const;
  std::string describe_wait(int peer, int root, int through, uint64_t call) const;
  void tell_peers(const Status& why) noexcept;
  // To the flight record and the log.
  void note_why() const noexcept;

  const Connection& connection_;
  GpuFront* gpu_ = nullptr;
  std::atomic<bool> over_{false};
  Status last_error_;
  Status why_;
};

}  // namespace tutti
