// Calls in flight: they run in the order in which they were started, moved on by whoever waits or
// looks, and by the progress thread.
#include <algorithm>
#include <mutex>

#include "lib/comm/comm.h"
#include "lib/comm/staged.h"
#include "lib/gpu/device_calls.h"

namespace tutti {

namespace {

constexpr uint64_t inspect_period_ns = 1'000'000;
// How often start() looks at a call of one hop: at most half a microsecond, in which it ends if its
// peers are there.
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

Communicator::Communicator() = default;

Communicator::~Communicator() {
  pinned_.reset();
  device_.reset();  // while there is a link to tell others by
  deadlock::remove(this);
  if (listed_) in_flight::remove(this);
  if (settings_.progress_thread) in_flight::release_progress_thread();
  if (first_ != nullptr) fail_all({TUTTI_ABORTED, "the communicator was freed"});
  self_->communicator = nullptr;
}

std::string Communicator::what_is_in_flight() {
  const std::lock_guard guard(lock_);
  if (first_ == nullptr) return {};
  if (over_.load(std::memory_order_relaxed)) {
    break_queue({TUTTI_ABORTED, {}});
    return {};
  }
  size_t requests = 0;
  for (const Operation* one = first_; one != nullptr; one = one->next) ++requests;
  return std::to_string(requests) + (requests == 1 ? " call is" : " calls are") +
         " still in flight";
}

// ---------------------------------------------------------------- by whoever owns a request

tutti_status Communicator::prepare(Operation* operation) {
  operation->owner = self_;
  if (device_ != nullptr) {
    if (Status refused = refuse_device(*operation); !refused.ok()) return fail(std::move(refused));
  }
  if (!operation->messages.empty()) return TUTTI_OK;
  const std::lock_guard guard(lock_);  // what runs looks for plans, too
  const std::shared_ptr<CallPlan>* const found = find(operation->made.call.key);
  if (found == nullptr) return last_error_.code();
  operation->call_plan = *found;
  operation->made.call.key.algorithm = {};  // the caller's
  operation->timeout_ms = operation->made.call.timeout_ms;
  return TUTTI_OK;
}

void Communicator::start(Operation* operation) {
  enter();
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
    advance_queue();
    if (operation == first_) look_at_first();
  }
  if (settings_.progress_thread) in_flight::wake_progress_thread();
}

tutti_status Communicator::wait(Operation* operation) {
  enter();
  const uint64_t limit_ns = timeout_ns(operation->timeout_ms);
  if (operation->active && !operation->ended()) {
    const std::lock_guard guard(lock_);
    // A collective that runs is waited for as a blocking one is; what comes after it, in steps.
    if (operation == first_ && operation->running && !operation->moves_messages()) {
      Status ended;
      try {
        ended = complete_call(*operation->call_plan, limit_ns);
      } catch (...) {
        ended = own_failure();
      }
      end_first(std::move(ended));
    } else {
      run_until([operation] { return operation->ended(); }, limit_ns);
    }
  }
  return conclude(operation);
}

void Communicator::wait_any(std::span<Operation* const> operations) {
  enter();
  const auto ended = [&] {
    return std::any_of(operations.begin(), operations.end(),
                       [](const Operation* one) { return one->ended(); });
  };
  const std::lock_guard guard(lock_);
  run_until(ended, timeout_ns(operations.front()->timeout_ms));
}

template <class Done>
void Communicator::run_until(Done&& done, uint64_t timeout_ns) {
  if (done() || first_ == nullptr) return;
  Status ended;
  Limit limit(timeout_ns);
  const Limited limited(&limit_, &limit);
  try {
    const Inspect inspect = [this](uint64_t now_ns) { return inspect_queue(now_ns); };
    ended = complete(
        *link_, patience_, timeout_ns, [this] { return advance_queue(); },
        [&] { return done() || first_ == nullptr; }, &inspect);
  } catch (...) {
    ended = own_failure();
  }
  if (!ended.ok()) break_queue(std::move(ended));
}

tutti_status Communicator::test(Operation* operation, bool* ended) {
  enter();
  if (operation->active && !operation->ended() && lock_.try_lock()) {
    const std::lock_guard guard(lock_, std::adopt_lock);
    const bool moved = advance_queue();
    const uint64_t now = now_ns();
    if (!moved && first_ != nullptr && now - inspected_ns_ >= inspect_period_ns) {
      inspected_ns_ = now;
      look_into_queue(now);
    }
  }
  *ended = !operation->active || operation->ended();
  if (*ended) return conclude(operation);
  in_flight::advance_all();
  return TUTTI_OK;
}

tutti_status Communicator::conclude(Operation* operation) {
  operation->active = false;
  const tutti_status result = operation->result.load(std::memory_order_acquire);
  return result == TUTTI_OK ? TUTTI_OK : fail(operation->failure);
}

// A blocking call while others are in flight is one of them.
tutti_status Communicator::run_behind(const Call& call) {
  Operation operation;
  operation.made.call = call;
  if (const tutti_status prepared = prepare(&operation); prepared != TUTTI_OK) return prepared;
  start(&operation);
  return wait(&operation);
}

// ---------------------------------------------------------------- under the lock

in_flight::Moved Communicator::advance_if_free() {
  if (!lock_.try_lock()) return in_flight::Moved::nothing;
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (!advance_queue()) return in_flight::Moved::nothing;
  return ran_dry() ? in_flight::Moved::trickle : in_flight::Moved::freely;
}

// Whether what was moved on last, over a stream, needs time before there is more to move.
bool Communicator::ran_dry() const {
  if (slots_ != nullptr || first_ == nullptr) return false;
  return first_->moves_messages() ? traffic_.ran_dry() : protocols_.schedules().ran_dry();
}

// Whoever calls this may be in a call on another communicator, or the progress thread: nothing that
// an operation throws gets there.
bool Communicator::advance_queue() {
  try {
    return move_on();
  } catch (...) {
    break_queue(own_failure());
    return true;
  }
}

bool Communicator::move_on() {
  bool moved = begin_next();
  if (first_ == nullptr) return moved;
  if (!first_->moves_messages()) {
    moved = advance_call(*first_->call_plan) || moved;
    if (call_done(*first_->call_plan)) end_first({});
    return moved;
  }
  moved = traffic_.advance(*link_) || moved;
  for (Operation *one = first_, *next; one != nullptr && one->running; one = next) {
    next = one->next;
    if (one->left != 0) continue;
    // inspect() may have moved the last of it. What comes next is to begin before anybody inspects
    // again: the link still has the mark of the message, whose sender may be a call further.
    retire(one);
    moved = true;
  }
  return moved;
}

// A small call between ranks that are there already ends here, and wait() needs no lock: taking it
// would hold up this rank until what it has just written has reached the others.
void Communicator::look_at_first() {
  if (!first_->running || first_->moves_messages()) return;
  const CallPlan& call_plan = *first_->call_plan;
  if (call_plan.choice.path == Path::schedule || call_plan.kernels.user != nullptr) return;
  const uint32_t looks = std::min(first_looks, patience_.spins);
  Status ended;
  try {
    for (uint32_t look = 0; look < looks && !call_done(call_plan); ++look) advance_call(call_plan);
    if (!call_done(call_plan)) return;
  } catch (...) {
    ended = own_failure();
  }
  end_first(std::move(ended));
}

// Begins those whose turn it is; afterwards the first one runs, if there is one.
bool Communicator::begin_next() {
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

// Whether it, and with it the communicator, is well.
bool Communicator::begin_operation(Operation& operation) {
  operation.running = true;
  if (operation.moves_messages()) {
    operation.left = 0;
    if (Status added = add_messages(operation.messages, &operation.left); !added.ok()) {
      break_queue(std::move(added));
      return false;
    }
    if (operation.left == 0) retire(&operation);
    return true;
  }
  CallPlan& call_plan = *operation.call_plan;
  bool ended = false;
  Status status;
  try {
    const Call& made = operation.made.call;
    operation.runs = &made;
    if (made.input_aside || made.output_aside || call_plan.premultiplies) [[unlikely]] {
      status = stage_in(call_plan, made, &operation.call);
      operation.runs = &operation.call;
    }
    if (status.ok()) status = begin_call(call_plan, *operation.runs, &ended);
  } catch (...) {
    status = own_failure();
  }
  if (!status.ok()) {
    break_down(std::move(status), call_plan.signature, calls());
    fail_all(broken_);
    return false;
  }
  if (ended) {
    stage_out(call_plan, operation.made.call);
    retire(&operation);
  }
  return true;
}

// The first, a collective, has come to its end, or to `ended`.
void Communicator::end_first(Status ended) {
  Operation* const operation = first_;
  const CallPlan& call_plan = *operation->call_plan;
  try {
    ended = end_call(call_plan, *operation->runs, std::move(ended));
  } catch (...) {
    ended = end_thrown_call(call_plan, *operation->runs);
  }
  if (!ended.ok()) {
    break_down(std::move(ended), call_plan.signature, mark_.epoch);
    fail_all(broken_);
    return;
  }
  stage_out(call_plan, operation->made.call);
  retire(operation);
}

void Communicator::retire(Operation* operation) {
  Operation** place = &first_;
  Operation* before = nullptr;
  while (*place != operation) {
    before = *place;
    place = &before->next;
  }
  *place = operation->next;
  if (last_ == operation) last_ = before;
  operation->result.store(TUTTI_OK, std::memory_order_release);
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

Status Communicator::inspect_queue(uint64_t now_ns) {
  if (first_ != nullptr && first_->moves_messages()) return traffic_.inspect(*link_, now_ns);
  return link_->inspect(now_ns);
}

void Communicator::look_into_queue(uint64_t now_ns) {
  Status found;
  try {
    found = inspect_queue(now_ns);
  } catch (...) {
    found = own_failure();
  }
  if (!found.ok()) break_queue(std::move(found));
}

void Communicator::break_queue(Status ended) {
  if (first_->moves_messages()) {
    break_messages(first_->messages.front(), std::move(ended));
    fail_all(broken_);
  } else if (first_->running) {
    end_first(std::move(ended));
  } else {
    break_down(std::move(ended), first_->call_plan->signature, calls() + 1);
    fail_all(broken_);
  }
}

void Communicator::fail_all(const Status& why) {
  traffic_.clear();
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
