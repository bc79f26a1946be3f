#include "lib/comm/comm.h"

#include <mutex>

#include "lib/gpu/gpu_front.h"

namespace tutti {

namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Communicator::Communicator() { connection_.serial = next_serial(); }

Communicator::~Communicator() {
  failures_.watch(nullptr);
  gpu_.reset();  // while there is a link to notify the peers by
  // While a process that exits still knows of it: else it would seem to have died.
  if (connection_.link != nullptr) connection_.link->leave(false);
  process::remove(this);
  deadlock::remove(this);
  if (connection_.settings.progress_thread) in_flight::release_progress_thread();
  self_->communicator = nullptr;
}

std::byte* Communicator::compound_memory(size_t place, size_t bytes) {
  Kept& kept = compound_memory_[place];
  if (kept.bytes < bytes) {
    kept = {};  // freed before the larger one is allocated
    kept.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    kept.bytes = bytes;
  }
  return kept.memory.get();
}

Transfers Communicator::transfers() {
  const std::lock_guard guard(queue_.lock());
  Transfers all = runner_.protocols().transfers();
  all += messages_.transfers();
  return all;
}

void Communicator::abort(std::string_view reason) {
  std::string text = rank_name(rank()) + " called tutti_comm_abort()";
  if (!reason.empty()) text.append(": ").append(reason);
  abort(Status{TUTTI_ABORTED, std::move(text), rank()});
}

tutti_status Communicator::break_off(Status status, const CallKey& last) {
  const std::lock_guard guard(queue_.lock());
  const CallCache::Entry* const found = runner_.planner().find(last);
  if (found != nullptr) {
    return failures_.give_up(std::move(status), (*found)->signature, calls());
  }
  failures_.break_down(std::move(status), "in a call of several", calls());
  return fail(failures_.why());
}

// ---------------------------------------------------------------- requests and messages

tutti_status Communicator::prepare(Operation* operation) {
  operation->owner = self_;
  if (gpu_ != nullptr) {
    Status refused = operation->messages.empty() ? gpu_->refuse(operation->made.call)
                                                 : gpu_->refuse(operation->messages);
    if (!refused.ok()) return refuse(std::move(refused), *operation);
  }
  const tutti_status prepared = queue_.prepare(operation);
  return prepared == TUTTI_OK ? TUTTI_OK : refuse(last_error(), *operation);
}

// Under the lock, since calls in flight begin, too.
tutti_status Communicator::refuse(Status why) {
  const std::lock_guard guard(queue_.lock());
  return failures_.refuse(std::move(why), queue_.next_call());
}

tutti_status Communicator::refuse(Status why, std::span<const Message> messages) {
  if (messages.empty()) return fail(std::move(why));
  const std::lock_guard guard(queue_.lock());
  return failures_.refuse(std::move(why), messages.front(), calls());
}

tutti_status Communicator::refuse_on_stream(Status why) {
  const std::lock_guard guard(queue_.lock());
  return failures_.refuse_on_stream(std::move(why), calls());
}

void Communicator::begin_on_stream() {
  if (!failures_.told()) return;
  const std::lock_guard guard(queue_.lock());
  failures_.begin_on_stream();
}

tutti_status Communicator::refuse(Status why, const Operation& operation) {
  // Nobody waits for what is only made.
  if (operation.persistent) return fail(std::move(why));
  return operation.messages.empty() ? refuse(std::move(why))
                                    : refuse(std::move(why), operation.messages);
}

tutti_status Communicator::exchange(std::span<const Message> messages, int64_t timeout_ms) {
  if (!grouping_) return run_messages(messages, timeout_ms);
  group_.insert(group_.end(), messages.begin(), messages.end());
  return TUTTI_OK;
}

tutti_status Communicator::send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer,
                                int tag, const CallSettings& settings) {
  const Message message = Message::to_send(buffer, count, dtype, peer, tag);
  return exchange({&message, 1}, settings.timeout_ms);
}

tutti_status Communicator::recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                                const CallSettings& settings) {
  const Message message = Message::to_receive(buffer, count, dtype, peer, tag);
  return exchange({&message, 1}, settings.timeout_ms);
}

tutti_status Communicator::group_begin() {
  if (grouping_) return fail({TUTTI_INVALID, "a group is open already"});
  grouping_ = true;
  return TUTTI_OK;
}

tutti_status Communicator::close_group(std::vector<Message>* noted) {
  if (!grouping_) return fail({TUTTI_INVALID, "no group is open"});
  grouping_ = false;
  *noted = std::exchange(group_, {});
  return TUTTI_OK;
}

tutti_status Communicator::group_end(int64_t timeout_ms) {
  std::vector<Message> messages;
  if (const tutti_status closed = close_group(&messages); closed != TUTTI_OK) return closed;
  return messages.empty() ? TUTTI_OK : run_messages(messages, timeout_ms);
}

tutti_status Communicator::group_cancel() {
  std::vector<Message> forgotten;
  return close_group(&forgotten);
}

// ---------------------------------------------------------------- other communicators

void Communicator::share(const void* thread) {
  const void* owner = nullptr;
  if (owner_.compare_exchange_strong(owner, thread) || owner == this) return;
  owner_.store(this);
}

bool Communicator::rests_with(const void* thread, bool alone) const {
  const void* const owner = owner_.load();
  return (owner == thread || (alone && owner == nullptr)) && !queue_.busy();
}

void Communicator::post(Note note) {
  if (note.empty() && failures_.tells_refusal(calls())) return;
  if (!note.empty()) {
    note.entered = calls();
    failures_.stop_telling();  // a deadlock must be found
  }
  connection_.link->post_note(note);
}

}  // namespace tutti
