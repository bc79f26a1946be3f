#include "lib/comm/call_queue.h"

#include <algorithm>
#include <mutex>

namespace tutti {

namespace {

constexpr uint64_t inspect_period_ns = 1'000'000;
// How often start() calls advance() for a call that ends soon: at most half a microsecond, in which
// it ends if its peers have entered it.
constexpr uint32_t first_looks = 200;

}  // namespace

void Operation::keep_lengths(size_t nranks) {
  Blocks& blocks = made.blocks;
  const size_t** const arrays[] = {&blocks.send_counts, &blocks.send_displs, &blocks.recv_counts,
                                   &blocks.recv_displs};
  lengths.reserve(std::size(arrays) * nranks);
  for (const size_t** const array : arrays) {
    if (*array == nullptr) continue;
    lengths.insert(lengths.end(), *array, *array + nranks);
    *array = lengths.data() + lengths.size() - nranks;
  }
  made.call.blocks = &blocks;
}

CallQueue::~CallQueue() {
  if (listed_) in_flight::remove(this);
  if (first_ != nullptr) fail_all({TUTTI_ABORTED, "the communicator was freed"});
}

std::string CallQueue::describe() {
  const std::lock_guard guard(lock_);
  if (first_ == nullptr) return {};
  if (failures_.over()) {
    break_down({TUTTI_ABORTED, {}});
    return {};
  }
  size_t requests = 0;
  for (const Operation* one = first_; one != nullptr; one = one->next) ++requests;
  return std::to_string(requests) + (requests == 1 ? " call is" : " calls are") +
         " still in flight";
}

// ---------------------------------------------------------------- for the owner of a request

tutti_status CallQueue::prepare(Operation* operation) {
  if (!operation->messages.empty()) return TUTTI_OK;
  const std::lock_guard guard(lock_);  // calls that run look for plans, too
  const CallCache::Entry* const found = runner_.planner().find(operation->made.call.key);
  if (found == nullptr) return failures_.last_error().code();
  operation->call_plan = *found;
  operation->made.call.key.algorithm = {};  // the caller's
  operation->timeout_ms = operation->made.call.timeout_ms;
  return TUTTI_OK;
}

void CallQueue::start(Operation* operation) {
  if (!listed_) [[unlikely]] {
    in_flight::add(this);
    listed_ = true;
  }
  {
    const std::lock_guard guard(lock_);
    operation->active = true;
    operation->running = false;
    operation->next = nullptr;
    operation->result.store(TUTTI_IN_PROGRESS, std::memory_order_relaxed);
    (first_ == nullptr ? first_ : last_->next) = operation;
    last_ = operation;
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    advance();
    if (operation == first_) look_at_first();
  }
  if (connection_.settings.progress_thread) in_flight::wake_progress_thread();
}

tutti_status CallQueue::wait(Operation* operation) {
  if (operation->active && !operation->ended()) {
    const std::lock_guard guard(lock_);
    // A collective that runs is completed as a blocking one is; operations behind it in
    // run_until().
    if (operation == first_ && operation->running && !operation->moves_messages()) {
      complete_first();
    } else {
      run_until([operation] { return operation->ended(); }, *operation);
    }
  }
  return conclude(operation);
}

void CallQueue::wait_any(std::span<Operation* const> operations) {
  const auto ended = [&] {
    return std::any_of(operations.begin(), operations.end(),
                       [](const Operation* one) { return one->ended(); });
  };
  const std::lock_guard guard(lock_);
  run_until(ended, *operations.front());
}

template <class Done>
void CallQueue::run_until(Done&& done, const Operation& waited) {
  if (done() || first_ == nullptr) return;
  const uint64_t timeout_ns = connection_.timeout_ns(waited.timeout_ms);
  Status ended;
  const LimitForFunctions limit(runner_.limit(), timeout_ns);
  try {
    const Inspect look = [this](uint64_t now_ns) { return inspect(now_ns); };
    ended = complete(
        *connection_.link, connection_.patience, timeout_ns, [this] { return advance(); },
        [&] { return done() || first_ == nullptr; }, &look);
  } catch (...) {
    ended = failures_.own_failure();
  }
  if (!ended.ok()) break_down(std::move(ended), &waited);
}

tutti_status CallQueue::test(Operation* operation, bool* ended) {
  if (operation->active && !operation->ended() && lock_.try_lock()) {
    const std::lock_guard guard(lock_, std::adopt_lock);
    const bool moved = advance();
    const uint64_t now = now_ns();
    if (!moved && first_ != nullptr && now - inspected_ns_ >= inspect_period_ns) {
      inspected_ns_ = now;
      look_for_failure(now);
    }
  }
  *ended = !operation->active || operation->ended();
  if (*ended) return conclude(operation);
  in_flight::advance_all();
  return TUTTI_OK;
}

tutti_status CallQueue::conclude(Operation* operation) {
  operation->active = false;
  const tutti_status result = operation->result.load(std::memory_order_acquire);
  return result == TUTTI_OK ? TUTTI_OK : failures_.fail(operation->failure);
}

tutti_status CallQueue::run_behind(const Call& call) {
  Operation operation;
  operation.made.call = call;
  if (prepare(&operation) != TUTTI_OK) {
    const std::lock_guard guard(lock_);
    return failures_.refuse(failures_.last_error(), next_call());
  }
  start(&operation);
  return wait(&operation);
}

tutti_status CallQueue::run_behind(std::span<const Message> messages, int64_t timeout_ms) {
  Operation operation;
  operation.messages.assign(messages.begin(), messages.end());
  operation.timeout_ms = timeout_ms;
  start(&operation);
  return wait(&operation);
}

uint64_t CallQueue::next_call() const {
  uint64_t call = runner_.calls() + 1;
  for (const Operation* one = first_; one != nullptr; one = one->next)
    call += !one->running && !one->moves_messages();
  return call;
}

Status CallQueue::look(std::span<const int> members) {
  const std::lock_guard guard(lock_);
  if (!failures_.why().ok() || connection_.link == nullptr) return failures_.why();
  TUTTI_TRY(first_ != nullptr ? inspect(now_ns()) : connection_.link->inspect(now_ns()));
  for (const int rank : members) {
    if (rank != connection_.rank) TUTTI_TRY(look_for(rank));
  }
  return {};
}

Status CallQueue::look_for(int rank) {
  switch (connection_.link->presence(rank, now_ns())) {
    case Presence::here:
    case Presence::left:  // what it left behind says more
      return {};
    case Presence::dead:
      return {TUTTI_PEER_FAILED, rank_name(rank) + " died", rank};
    case Presence::lost:
      return {TUTTI_PEER_FAILED, "the host of " + rank_name(rank) + " does not answer", rank};
    case Presence::cut_off:
      break;
  }
  return {TUTTI_PEER_FAILED, "the host of " + rank_name(connection_.rank) + " is cut off",
          connection_.rank};
}

tutti_status CallQueue::abandon(Status why) {
  const std::lock_guard guard(lock_);
  if (first_ != nullptr) {
    break_down(std::move(why));
  } else {
    failures_.break_down(std::move(why), "before a call began", 0);
  }
  return failures_.fail(failures_.why());
}

// ---------------------------------------------------------------- under the lock

in_flight::Moved CallQueue::advance_if_free() {
  if (!lock_.try_lock()) return in_flight::Moved::nothing;
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (!advance()) return in_flight::Moved::nothing;
  return ran_dry() ? in_flight::Moved::trickle : in_flight::Moved::freely;
}

// Whether the last advance over a stream moved all that it could: more needs time.
bool CallQueue::ran_dry() const {
  if (connection_.slots != nullptr || first_ == nullptr) return false;
  return first_->moves_messages() ? messages_.ran_dry() : runner_.protocols().schedules().ran_dry();
}

// The caller may be in a call on another communicator, or be the progress thread: no exception of
// an operation may reach it.
bool CallQueue::advance() {
  try {
    return move_on();
  } catch (...) {
    break_down(failures_.own_failure());
    return true;
  }
}

bool CallQueue::move_on() {
  bool moved = begin_next();
  if (first_ == nullptr) return moved;
  if (!first_->moves_messages()) {
    moved = runner_.advance(*first_->call_plan) || moved;
    if (runner_.done(*first_->call_plan)) end_first({});
    return moved;
  }
  moved = messages_.advance() || moved;
  for (Operation *one = first_, *next; one != nullptr && one->running; one = next) {
    next = one->next;
    if (one->left != 0) continue;
    // inspect() may have moved its last bytes. The next operation must begin before the next
    // inspect(): the link still has the mark of this message, whose sender may be one call ahead.
    retire(one);
    moved = true;
  }
  return moved;
}

// A small call that all ranks have entered ends here, so wait() needs no lock. Taking the lock is
// an atomic read-modify-write, which would stall this rank until its store buffer has drained.
void CallQueue::look_at_first() {
  if (!first_->running || first_->moves_messages()) return;
  const CallPlan& call_plan = *first_->call_plan;
  const uint64_t bytes = call_plan.key.count * call_plan.element_size;
  // Of a long call nearly all would be done in here, before its caller could go on.
  if (!call_plan.ends_soon || bytes > connection_.capabilities.one_shot_limit_bytes) return;
  const uint32_t looks = std::min(first_looks, connection_.patience.spins);
  Status ended;
  try {
    for (uint32_t look = 0; look < looks && !runner_.done(call_plan); ++look)
      runner_.advance(call_plan);
    if (!runner_.done(call_plan)) return;
  } catch (...) {
    ended = failures_.own_failure();
  }
  end_first(std::move(ended));
}

// Begins those whose turn it is; afterwards the first one runs, if there is one.
bool CallQueue::begin_next() {
  bool begun = false;
  for (Operation *one = first_, *next; one != nullptr; one = next) {
    next = one->next;
    if (one->running) {
      if (one->moves_messages()) continue;
      return begun;
    }
    if (one != first_ && !(one->moves_messages() && first_->moves_messages())) return begun;
    begun = true;
    if (!begin_operation(*one)) return begun;
  }
  return begun;
}

// False if it has failed, and with it the communicator.
bool CallQueue::begin_operation(Operation& operation) {
  operation.running = true;
  if (operation.moves_messages()) return begin_messages(operation);
  CallPlan& call_plan = *operation.call_plan;
  bool ended = false;
  Status status;
  try {
    const Call& made = operation.made.call;
    operation.runs = &made;
    if (CallRunner::is_staged(call_plan, made)) [[unlikely]] {
      status = runner_.stage_in(call_plan, made, &operation.call);
      operation.runs = &operation.call;
    }
    if (status.ok()) status = runner_.begin(call_plan, *operation.runs, &ended);
  } catch (...) {
    status = failures_.own_failure();
  }
  if (!status.ok()) {
    failures_.break_down(std::move(status), call_plan.signature, runner_.calls());
    fail_all(failures_.why());
    return false;
  }
  if (ended) {
    runner_.stage_out(call_plan, operation.made.call);
    retire(&operation);
  }
  return true;
}

bool CallQueue::begin_messages(Operation& operation) {
  operation.left = 0;
  if (Status added = messages_.add(operation.messages, &operation.left, &operation.entry);
      !added.ok()) {
    break_down(std::move(added));
    return false;
  }
  if (operation.left == 0) retire(&operation);
  return true;
}

// Waits for the first operation, a collective, until it has ended.
void CallQueue::complete_first() {
  const CallPlan& call_plan = *first_->call_plan;
  Status ended;
  try {
    ended = runner_.complete_and_end(call_plan, *first_->runs);
  } catch (...) {
    ended = runner_.end_thrown(call_plan, *first_->runs);
  }
  retire_first(std::move(ended));
}

// The first operation has ended: with its result, or with the failure `ended`.
void CallQueue::end_first(Status ended) {
  const CallPlan& call_plan = *first_->call_plan;
  try {
    ended = runner_.end(call_plan, *first_->runs, std::move(ended));
  } catch (...) {
    ended = runner_.end_thrown(call_plan, *first_->runs);
  }
  retire_first(std::move(ended));
}

void CallQueue::retire_first(Status ended) {
  const CallPlan& call_plan = *first_->call_plan;
  if (!ended.ok()) {
    failures_.break_down(std::move(ended), call_plan.signature, runner_.mark().epoch);
    fail_all(failures_.why());
    return;
  }
  runner_.stage_out(call_plan, first_->made.call);
  retire(first_);
}

void CallQueue::retire(Operation* operation) {
  Operation** place = &first_;
  Operation* before = nullptr;
  while (*place != operation) {
    before = *place;
    place = &before->next;
  }
  *place = operation->next;
  if (last_ == operation) last_ = before;
  if (operation->moves_messages()) messages_.leave(operation->entry);
  operation->result.store(TUTTI_OK, std::memory_order_release);
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

Status CallQueue::inspect(uint64_t now_ns) {
  if (first_ != nullptr && first_->moves_messages()) return messages_.inspect(now_ns);
  if (first_ != nullptr) runner_.show_wait(*first_->call_plan, now_ns);
  return connection_.link->inspect(now_ns);
}

void CallQueue::look_for_failure(uint64_t now_ns) {
  Status found;
  try {
    found = inspect(now_ns);
  } catch (...) {
    found = failures_.own_failure();
  }
  if (found.ok()) return;
  const auto move = [this] { return advance(); };
  const auto ended = [this] { return first_ == nullptr; };
  if (!ends_at_last_look(found, move, ended)) break_down(std::move(found));
}

void CallQueue::break_down(Status ended, const Operation* waited) {
  if (first_->moves_messages()) {
    messages_.break_down(first_->messages.front(), waited != nullptr ? &waited->left : nullptr,
                         std::move(ended));
    fail_all(failures_.why());
  } else if (first_->running) {
    end_first(std::move(ended));
  } else {
    failures_.break_down(std::move(ended), first_->call_plan->signature, runner_.calls() + 1);
    fail_all(failures_.why());
  }
}

void CallQueue::fail_all(const Status& why) {
  messages_.clear();
  Operation* one = std::exchange(first_, nullptr);
  last_ = nullptr;
  while (one != nullptr) {
    Operation* const next = one->next;
    one->failure = why;
    one->result.store(why.code(), std::memory_order_release);
    one = next;
  }
  in_flight_.store(0, std::memory_order_release);
}

}  // namespace tutti
