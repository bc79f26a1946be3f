// What has gone wrong on a communicator: its caller's last error, why it is over, and what was
// refused to this rank, which those that wait for it are told by its note (lib/call/note.h).
#pragma once

#include <atomic>
#include <string>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/message.h"
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

  // As fail(), of what is refused to this rank before it has begun: tells the ranks that wait for
  // it. A collective, which would have had the number `call`; a message; a call on a stream.
  // `calls`: the number of the last call.
  tutti_status refuse(Status why, uint64_t call) {
    return refuse(std::move(why), 0, call - 1, call);
  }
  tutti_status refuse(Status why, const Message& message, uint64_t calls) {
    return refuse(std::move(why), kind_of(message), calls, calls + 1);
  }
  tutti_status refuse_on_stream(Status why, uint64_t calls) {
    return refuse(std::move(why), on_stream, calls, calls + 1);
  }
  // Whether the note says what was refused, rather than for whom this rank waits in `call`.
  bool tells_refusal(uint64_t call) const { return call < told_before_; }
  // The note says something else from now on.
  void stop_telling() {
    told_of_.store(0, std::memory_order_relaxed);
    told_before_ = 0;
  }
  // Whether a message or a call on a stream was refused, as far as the note says so. Any thread.
  bool told() const { return told_of_.load(std::memory_order_relaxed) != 0; }
  // The note says for whom this rank waits in `call`, or in a message behind it (-1: unknown),
  // unless it tells of a refusal.
  void show_wait(uint64_t call, const CallSignature& signature, int peer);
  // That has ended well, and the note says so no more.
  void hide_wait(uint64_t call) noexcept {
    if (wait_shown_) [[unlikely]]
      take_back_wait(call);
  }
  // A message begins, or a call on a stream: what was refused was such a one, made now.
  void begin(const Message& message) {
    if (told()) [[unlikely]]
      take_back(kind_of(message));
  }
  void begin_on_stream() { take_back(on_stream); }

  // Failed or aborted: no further call. Any thread.
  bool over() const { return over_.load(std::memory_order_relaxed); }
  // Why, once a call of this rank has met the failure; else OK.
  const Status& why() const { return why_; }
  // Any thread; never block. The second leaves the GPU to its caller.
  void abort(const Status& why);
  void abort_link(const Status& why);

  // A running call has failed: the communicator is over, for all ranks. The first reason is kept.
  void break_down(Status status, const CallSignature& signature, uint64_t call);
  void break_down(Status status, const Message& message, uint64_t calls);
  void break_down(Status status, const std::string& where, uint64_t call) {
    break_down(std::move(status), where, {.calls = call});
  }
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
  // Of a receive that waited for any rank; `calls`: the number of this rank's last collective.
  Status timed_out_for_any(uint64_t calls) const noexcept;

 private:
  // In Note::epoch of what was refused: 0 of a collective, a message as in the flight record
  // (record::message()), or this.
  static constexpr uint64_t on_stream = 1;
  // What has failed, as far as it is known.
  struct Wait {
    uint64_t calls = 0;                        // its number; of a message the last call's
    const CallSignature* signature = nullptr;  // of a collective
    const Message* message = nullptr;
    bool streamed = false;
  };
  uint64_t kind_of(const Message& message) const;
  tutti_status refuse(Status why, uint64_t kind, uint64_t entered, uint64_t before);
  static std::string describe_refused(const Note& note);
  void take_back(uint64_t kind);
  void take_back_wait(uint64_t call) noexcept;
  void break_down(Status status, const std::string& where, const Wait& wait);
  // The rank that `peer`, for which this one waits in the call, waits for, in that call or an
  // earlier one, directly or through others, and that waits for none or is stopped; *through: how
  // many ranks are between the two.
  int root_of_wait(int peer, uint64_t call, int* through) const;
  // Its process is, as far as this rank can see.
  bool is_stopped(int rank) const;
  // The lowest rank of this host whose process is stopped, -1 if none.
  int stopped_rank() const;
  // Adds what was refused to a rank that others wait for.
  void add_refusal(const Wait& wait, Status* status) const;
  // Whether the wait, which has ended with `code`, may last for what that rank's note says.
  bool explains(int rank, const Note& note, const Wait& wait, tutti_status code) const;
  // The note of the collective that all other ranks wait in; else an empty one.
  Note common_wait() const;
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
  // Of what the own note says was refused: the kind, and until which call the note is not for other
  // things.
  std::atomic<uint64_t> told_of_{0};
  uint64_t told_before_ = 0;
  bool wait_shown_ = false;
};

}  // namespace tutti
