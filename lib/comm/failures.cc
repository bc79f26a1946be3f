#include "lib/comm/failures.h"

#include <new>
#include <optional>

#include "lib/base/log.h"
#include "lib/base/process_state.h"
#include "lib/comm/traffic.h"
#include "lib/gpu/gpu_front.h"

namespace tutti {

namespace {

bool waits_for_message(const Note& note) {
  return note.signature.collective == Collective::point_to_point;
}

}  // namespace

tutti_status Failures::fail(Status status) {
  last_error_ = std::move(status);
  return last_error_.code();
}

void Failures::abort(const Status& why) {
  abort_link(why);
  if (gpu_ != nullptr) gpu_->fail(why);
}

void Failures::abort_link(const Status& why) {
  // First the reason: a call that another thread begins finds it.
  if (connection_.link != nullptr) connection_.link->abort(why);
  over_.store(true, std::memory_order_release);
}

void Failures::adopt(Status why) {
  if (!why_.ok() || why.ok()) return;
  over_.store(true, std::memory_order_release);
  why_ = std::move(why);
  try {
    add_refusal({.calls = why_.call(), .streamed = true}, &why_);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is without
  }
  note_why();
}

void Failures::note_why() const noexcept {
  if (connection_.record != nullptr) connection_.record->fail(why_);
  try {
    if (logging()) log(TUTTI_LOG_ERROR, rank_name(connection_.rank) + ": " + why_.text());
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the caller gets the sentence
  }
}

Status Failures::timed_out(int peer, uint64_t call) const noexcept {
  try {
    int through = 0;
    const int root = root_of_wait(peer, call, &through);
    std::string text = describe_wait(peer, root, through, call);
    int stopped = is_stopped(root) ? root : -1;
    // In a collective call a rank may not have said for whom it waits.
    if (stopped < 0 && call != 0) stopped = stopped_rank();
    if (stopped < 0) return {TUTTI_TIMEOUT, std::move(text), root, call};
    if (stopped != root) text += "; " + rank_name(stopped) + " does not go on";
    return of_stopped(std::move(text), stopped, call);
  } catch (...) {
    return {TUTTI_TIMEOUT, "deadline passed", peer, call};
  }
}

Status Failures::timed_out_for_any(uint64_t calls) const noexcept {
  try {
    std::string text = rank_name(connection_.rank) + " waited for any rank, and none sent it";
    if (const Note others = common_wait(); others.epoch > calls) {
      text += "; every other rank waits in call " + std::to_string(others.epoch) + ", " +
              others.signature.describe() + ", which " + rank_name(connection_.rank) +
              " has not entered";
    }
    const int stopped = stopped_rank();
    if (stopped < 0) return {TUTTI_TIMEOUT, std::move(text)};
    text += "; " + rank_name(stopped) + " does not go on";
    return of_stopped(std::move(text), stopped, 0);
  } catch (...) {
    return {TUTTI_TIMEOUT, "deadline passed"};
  }
}

Note Failures::common_wait() const {
  Note common;
  for (int rank = 0; rank < connection_.nranks; ++rank) {
    if (rank == connection_.rank) continue;
    const Note note = connection_.link->read_note(rank);
    const bool waits = note.waits_for() >= 0 && note.count == 0 && note.refusal().empty() &&
                       !waits_for_message(note);
    if (!waits || (common.epoch != 0 && note.epoch != common.epoch)) return {};
    common = note;
  }
  return common;
}

Status Failures::of_stopped(std::string text, int stopped, uint64_t call) const {
  text += "; its process, " + std::to_string(connection_.processes[size_t(stopped)]) +
          ", is stopped, by a signal or a debugger";
  return {TUTTI_TIMEOUT, std::move(text), stopped, call};
}

int Failures::root_of_wait(int peer, uint64_t call, int* through) const {
  if (peer < 0) return peer;
  int root = peer;
  for (int steps = 0; steps < connection_.nranks; ++steps) {
    const std::optional<CallMark> seen = connection_.link->last_seen(root);
    const Note note = connection_.link->read_note(root);
    // Who waits in something later than this collective has done its part of it.
    const bool later =
        call != 0 && (note.epoch > call || (note.epoch == call && waits_for_message(note)));
    const bool waits = !is_stopped(root) && !later && (!seen || seen->epoch <= note.epoch) &&
                       note.waits_for() >= 0 && note.waits_for() < connection_.nranks;
    if (!waits) {
      *through = steps;
      return root;
    }
    // It waits for this rank by now, or was about to when it said so.
    if (note.waits_for() == connection_.rank) break;
    // What it waited for has come since.
    const std::optional<CallMark> next = connection_.link->last_seen(note.waits_for());
    if (next && next->epoch > note.epoch) {
      *through = steps;
      return root;
    }
    root = note.waits_for();
  }
  return peer;
}

std::string Failures::describe_wait(int peer, int root, int through, uint64_t call) const {
  if (peer < 0) return "nothing came before the deadline";
  std::string text = rank_name(connection_.rank) + " waited for rank " + std::to_string(peer);
  if (root != peer) {
    text += ", which waited";
    if (through > 1) text += ", with " + std::to_string(through - 1) + " more between,";
    text += " for rank " + std::to_string(root);
  }
  text += describe_latest(root, root == peer, call);
  return text;
}

std::string Failures::describe_latest(int rank, bool waited_for_directly, uint64_t call) const {
  const std::optional<CallMark> seen = connection_.link->last_seen(rank);
  if (!seen)
    return waited_for_directly ? ", which has not made any call yet" : ", of which no call came";
  const std::string what =
      "call " + std::to_string(seen->epoch) + ", " + seen->signature.describe();
  if (call == 0) return ", whose latest is " + what;
  if (seen->epoch < call) return ", which has not entered this call; its latest is " + what;
  if (seen->epoch > call) return ", which is already in " + what;
  return ", which is in the call but sends nothing more";
}

// ---------------------------------------------------------------- what was refused

uint64_t Failures::kind_of(const Message& message) const {
  const bool known = message.peer >= 0 && message.peer < connection_.nranks;
  return record::message(known ? message.peer : record::any_rank, message.sends);
}

tutti_status Failures::refuse(Status why, uint64_t kind, uint64_t entered, uint64_t before) {
  told_of_.store(kind, std::memory_order_relaxed);
  told_before_ = before;
  if (connection_.link != nullptr && !over()) {
    Note note;
    note.entered = entered;
    note.epoch = kind;
    note.set_refusal(why.text());
    connection_.link->post_note(note);
  }
  return fail(std::move(why));
}

void Failures::show_wait(uint64_t call, const CallSignature& signature, int peer) {
  if (tells_refusal(call)) return;
  Note note;
  note.entered = note.epoch = call;
  note.signature = signature;
  note.awaited = uint32_t(peer + 1);
  connection_.link->post_note(note);
  wait_shown_ = true;
}

void Failures::take_back_wait(uint64_t call) noexcept {
  wait_shown_ = false;
  if (tells_refusal(call)) return;
  try {
    connection_.link->post_note({});
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the call has its result
  }
}

void Failures::take_back(uint64_t kind) {
  if (kind != told_of_.load(std::memory_order_relaxed) || connection_.link == nullptr) return;
  stop_telling();
  connection_.link->post_note({});
}

// "call 2", "a send to rank 3".
std::string Failures::describe_refused(const Note& note) {
  if (note.epoch == 0) return "call " + std::to_string(note.entered + 1);
  if (note.epoch == on_stream) return "a call on a stream";
  const bool sends = (note.epoch & record::sends_bit) != 0;
  const auto peer = int(uint32_t(note.epoch));
  if (peer == record::any_rank) return sends ? "a send" : "a receive";
  return (sends ? "a send to rank " : "a receive from rank ") + std::to_string(peer);
}

bool Failures::explains(int rank, const Note& note, const Wait& wait, tutti_status code) const {
  const std::optional<CallMark> seen = connection_.link->last_seen(rank);
  const uint64_t latest = seen ? seen->epoch : 0;
  const bool differs = code == TUTTI_MISMATCH;
  if (wait.message != nullptr && wait.message->peer != rank && !wait.message->from_any())
    return false;
  if (note.epoch == 0) {
    const uint64_t call = note.entered + 1;
    const bool entered = latest >= call;
    if (wait.message != nullptr) return !differs && !entered && wait.calls < call;
    if (wait.calls != call || wait.streamed) return false;
    if (!differs) return !entered;
    return !entered || wait.signature == nullptr || !seen->signature.same_call(*wait.signature);
  }
  // Who has gone on with collectives since can do without it; arguments of a collective differ for
  // another reason.
  if (latest > note.entered + 1) return false;
  if (wait.message != nullptr && wait.calls > note.entered + 1) return false;
  if (differs && wait.message == nullptr) return false;
  return wait.streamed == (note.epoch == on_stream);
}

void Failures::add_refusal(const Wait& wait, Status* status) const {
  const tutti_status code = status->code();
  if (code != TUTTI_MISMATCH && code != TUTTI_TIMEOUT && code != TUTTI_PEER_FAILED) return;
  if (wait.calls == 0 && wait.message == nullptr && !wait.streamed) return;
  for (int rank = 0; rank < connection_.nranks; ++rank) {
    if (rank == connection_.rank || connection_.link == nullptr) continue;
    const Note note = connection_.link->read_note(rank);
    if (note.refusal().empty() || !explains(rank, note, wait, code)) continue;
    const std::string words = "; " + rank_name(rank) + " was refused " + describe_refused(note) +
                              ": " + std::string(note.refusal());
    // Another rank may have said it already.
    if (status->text().find(words) != std::string::npos) return;
    *status = {code, status->text() + words, status->rank(), status->call()};
    return;
  }
}

// ---------------------------------------------------------------- failures

int Failures::stopped_rank() const {
  for (int rank = 0; rank < connection_.nranks; ++rank) {
    if (rank != connection_.rank && is_stopped(rank)) return rank;
  }
  return -1;
}

bool Failures::is_stopped(int rank) const {
  if (rank < 0) return false;
  const pid_t process = connection_.processes[size_t(rank)];
  return process > 0 && process::is_stopped(process);
}

Status Failures::own_failure() const noexcept {
  const Status thrown = status_of_exception();
  try {
    const int rank = connection_.rank;
    return {thrown.code(), rank_name(rank) + ": " + thrown.text(), rank};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void Failures::tell_peers(const Status& why) noexcept {
  Link* const link = connection_.link.get();
  if (link == nullptr) return;
  try {
    link->abort(why);
  } catch (const std::bad_alloc&) {
    try {
      link->abort(Status::out_of_memory());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): peers find this rank gone
    }
  }
}

void Failures::break_down(Status status, const CallSignature& signature, uint64_t call) {
  std::string where;
  try {
    where = "in call " + std::to_string(call) + ", " + signature.describe();
  } catch (const std::bad_alloc&) {
    where.clear();
  }
  break_down(std::move(status), where, {.calls = call, .signature = &signature});
}

void Failures::break_down(Status status, const Message& message, uint64_t calls) {
  std::string where;
  try {
    where = "in " + signature_of(message).describe();
  } catch (const std::bad_alloc&) {
    where.clear();
  }
  break_down(std::move(status), where, {.calls = calls, .message = &message});
}

void Failures::break_down(Status status, const std::string& where, const Wait& wait) {
  over_.store(true, std::memory_order_release);
  if (!why_.ok()) return;
  try {
    if (status.text().empty() && gpu_ != nullptr) status = gpu_->failure();
    if (status.text().empty() && connection_.link != nullptr) {  // aborted: the link knows why
      if (Status found = connection_.link->inspect(now_ns()); !found.ok()) {
        status = std::move(found);
      }
    }
    if (status.ok()) status = {TUTTI_ABORTED, "the communicator is over"};
    add_refusal(wait, &status);
    why_ = {status.code(), where + ": " + status.text(), status.rank(),
            wait.message == nullptr ? wait.calls : 0};
  } catch (...) {
    if (status.ok()) status = status_of_exception();
    why_ = status;
  }
  note_why();
  tell_peers(status);
  if (gpu_ != nullptr) gpu_->fail(why_);
}

}  // namespace tutti
