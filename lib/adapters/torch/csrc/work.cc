#include "work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <system_error>

#include "gil.h"

namespace tutti_torch {

namespace {

using Clock = std::chrono::steady_clock;

// How long the queue's thread looks for new calls by itself after one, and how often: waking it
// takes longer than a short call. Longer than between the layers of a backward pass. A call that is
// younger than a look is left to the thread that issued it, which mostly waits for it at once.
constexpr auto linger = std::chrono::milliseconds(5);
constexpr auto look = std::chrono::microseconds(100);

// Between looks at messages in flight: short at first, then longer, to leave the processor alone.
constexpr auto shortest_nap = std::chrono::microseconds(20);
constexpr auto longest_nap = std::chrono::microseconds(500);
constexpr int looks_before_nap = 200;

FuturePtr new_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

}  // namespace

void check(tutti_status status, const char* what, tutti_comm comm) {
  if (status == TUTTI_OK) return;
  std::string text;
  tutti_error error{};
  if (comm != nullptr && library().comm_last_error(comm, &error) == TUTTI_OK &&
      error.status == status && error.text != nullptr) {
    text = error.text;
  }
  if (text.empty()) text = library().last_error();
  std::ostringstream message;
  message << "tutti: " << (status == TUTTI_TIMEOUT ? "Timed out in " : "") << what << ": " << text
          << " (" << library().status_name(status) << ")";
  TORCH_CHECK(false, message.str());
}

void throw_wait_timeout(const std::string& what, Milliseconds limit) {
  std::ostringstream message;
  message << "tutti: Timed out after " << limit.count() << " ms of waiting for a " << what
          << ", which goes on";
  TORCH_CHECK(false, message.str());
}

TuttiWork::TuttiWork(int rank, c10d::OpType type, const char* title, const Tensors& inputs,
                     Tensors outputs, uint64_t sequence, int source)
    : c10d::Work(rank, type, title, inputs),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      source_(source) {}

bool TuttiWork::isCompleted() { return done(); }
bool TuttiWork::isSuccess() const { return done() && failure_ == nullptr; }
std::exception_ptr TuttiWork::exception() const { return done() ? failure_ : nullptr; }
int TuttiWork::sourceRank() const { return source_.load(std::memory_order_relaxed); }
uint64_t TuttiWork::getSequencenumber() const { return sequence_; }
void TuttiWork::abort() {
  TORCH_CHECK(false, "tutti: a single work cannot be aborted: abort its process group");
}

Tensors TuttiWork::result() {
  TORCH_CHECK(done(), "tutti: the work has not ended");
  return outputs_;
}

void TuttiWork::rethrow() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void TuttiWork::set_done(std::exception_ptr failure) {
  failure_ = std::move(failure);
  done_.store(true, std::memory_order_release);
}

void TuttiWork::end(c10::ivalue::Future& future) const {
  if (failure_ != nullptr) {
    future.setError(failure_);
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

// ---------------------------------------------------------------- collectives

// While this thread, which has the queue, runs the callbacks of a future.
class CallQueue::Callbacks {
 public:
  Callbacks(const CallQueue& queue, const Place& place)
      : queue_(queue), place_(place), outer_(innermost_) {
    innermost_ = this;
  }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;
  ~Callbacks() { innermost_ = outer_; }

  // NULL: this thread is in no callback of this queue.
  static Callbacks* of(const CallQueue& queue) {
    Callbacks* one = innermost_;
    while (one != nullptr && &one->queue_ != &queue) one = one->outer_;
    return one;
  }

  Place next_place() {
    Place place = place_;
    place.push_back(++last_place_);
    return place;
  }

 private:
  static thread_local Callbacks* innermost_;

  const CallQueue& queue_;
  const Place& place_;
  Callbacks* const outer_;  // in one of which these run
  uint64_t last_place_ = 0;
};

thread_local CallQueue::Callbacks* CallQueue::Callbacks::innermost_ = nullptr;
thread_local int Serving::depth_ = 0;

void CallQueue::Call::run() {
  std::exception_ptr failure;
  try {
    // Copies from and to buffers are no part of the program's graph.
    at::AutoDispatchBelowADInplaceOrView below;
    run_();
  } catch (...) {
    failure = std::current_exception();
  }
  run_ = nullptr;
  finish(failure);
  set_done(failure);
}

bool CallQueue::Call::wait(Milliseconds timeout) {
  if (!done()) queue_->wait_for(*this, timeout);
  rethrow();
  return true;
}

FuturePtr CallQueue::Call::getFuture() {
  FuturePtr future = done() ? FuturePtr() : queue_->future_of(*this);
  if (!future) {
    future = new_future();
    end(*future);
  }
  return future;
}

void CallQueue::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CallQueue::insert(c10::intrusive_ptr<Call> call, FuturePtr future) {
  Callbacks* const callbacks = Callbacks::of(*this);
  Entry entry{callbacks != nullptr ? callbacks->next_place() : Place{++last_place_},
              std::move(call), std::move(future), Clock::now()};
  const auto after = std::upper_bound(
      queue_.begin(), queue_.end(), entry,
      [](const Entry& one, const Entry& other) { return one.place < other.place; });
  queue_.insert(after, std::move(entry));
}

void CallQueue::push(c10::intrusive_ptr<Call> call) {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!stopping_, "tutti: the process group was shut down");
  insert(std::move(call), FuturePtr());
  if (asleep_) wake_.notify_one();
}

bool CallQueue::drain(Milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_for(lock, limit, [this] { return queue_.empty() && !running(); });
}

void CallQueue::run(const Entry& entry) {
  if (!entry.future) {
    entry.call->run();
  } else if (!entry.future->completed()) {  // by the program itself
    const Callbacks callbacks(*this, entry.place);
    try {
      entry.call->end(*entry.future);
    } catch (const std::exception& thrown) {
      TORCH_WARN("tutti: a callback has thrown: ", thrown.what());
    }
  }
}

bool CallQueue::in_callback() const { return Callbacks::of(*this) != nullptr; }

bool CallQueue::runs_here() {
  std::lock_guard<std::mutex> lock(mutex_);
  return runner_ == std::this_thread::get_id();
}

// By the thread that has the queue.
void CallQueue::run_queued(std::unique_lock<std::mutex>& lock, const Call* last) {
  // The callbacks of others stay behind the callback that waits.
  const bool nested = in_callback();
  const auto goes_on = [&] {
    const Entry& next = queue_.front();
    return last == nullptr || !last->done() || (!nested && next.future && next.call.get() == last);
  };
  while (!queue_.empty() && goes_on()) {
    {
      const Entry entry = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      run(entry);
    }  // tensors are freed outside the lock
    lock.lock();
    ended_.notify_all();
  }
}

// With nobody running.
void CallQueue::take_and_run(std::unique_lock<std::mutex>& lock, const Call* last) {
  const Serving serving;
  runner_ = std::this_thread::get_id();
  run_queued(lock, last);
  runner_ = std::thread::id();
  last_call_ = Clock::now();
  ended_.notify_all();
  if (!queue_.empty() && asleep_) wake_.notify_one();
}

void CallQueue::wait_for(const Call& call, Milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (in_callback()) {
    run_queued(lock, &call);  // whatever the limit: nobody else can
    return;
  }
  if (limit.count() > 0) {
    // The call may take longer than this wait may.
    if (!ended_.wait_for(lock, limit, [&] { return call.done(); })) {
      lock.unlock();
      throw_wait_timeout("collective", limit);
    }
    return;
  }
  while (!call.done()) {
    if (running() || queue_.empty()) {
      ended_.wait(lock);
    } else {
      take_and_run(lock, &call);
    }
  }
}

FuturePtr CallQueue::future_of(Call& call) {
  if (in_callback()) {
    // Nobody else runs the queue, nor does a wait for the future, which is torch's.
    const auto released = without_gil();
    wait_for(call, Milliseconds(0));
    return {};
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (call.done()) return {};
  FuturePtr future = new_future();
  insert(c10::intrusive_ptr<Call>::reclaim_copy(&call), future);
  return future;
}

void CallQueue::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (!queue_.empty() && !running()) {
      const auto age = Clock::now() - queue_.front().issued;
      if (age >= look || stopping_) {
        take_and_run(lock, nullptr);
      } else {
        lock.unlock();
        std::this_thread::sleep_for(look - age);
        lock.lock();
      }
    } else if (stopping_ && queue_.empty() && !running()) {
      return;
    } else if (stopping_) {
      ended_.wait(lock);
    } else if (Clock::now() - last_call_ < linger) {
      lock.unlock();
      std::this_thread::sleep_for(look);
      lock.lock();
    } else {
      asleep_ = true;
      wake_.wait(lock, [this] { return stopping_ || (!queue_.empty() && !running()); });
      asleep_ = false;
    }
  }
}

// ---------------------------------------------------------------- messages

void Messages::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Messages::begin(c10::intrusive_ptr<Message> message, bool send, void* buffer, size_t bytes,
                     int peer, int tag, Milliseconds limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!stopping_, "tutti: the process group was shut down");
  message->limit_ = limit;
  message->deadline_ = Clock::now() + limit;
  const auto& begins = library();
  tutti_request* const request = &message->request_;
  const auto status =
      send ? begins.isend(buffer, bytes, TUTTI_UINT8, peer, tag, comm_, nullptr, request)
      : peer == any_peer
          ? begins.irecv_any(buffer, bytes, TUTTI_UINT8, tag, &message->sender_, comm_, nullptr,
                             request)
          : begins.irecv(buffer, bytes, TUTTI_UINT8, peer, tag, comm_, nullptr, request);
  check(status, send ? "send" : "recv", comm_);
  in_flight_.push_back(std::move(message));
  wake_.notify_one();
}

bool Messages::idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return in_flight_.empty();
}

bool Messages::runs_here() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::find(ending_.begin(), ending_.end(), std::this_thread::get_id()) != ending_.end();
}

void Messages::poll(std::vector<c10::intrusive_ptr<Message>>& ended) {
  const auto now = Clock::now();
  for (auto at = in_flight_.begin(); at != in_flight_.end();) {
    Message& message = **at;
    int over = 0;
    auto status = library().test(&message.request_, &over);
    // Buffers are the library's until the request has ended, which after an abort it soon does.
    if (status == TUTTI_OK && over == 0 && now > message.deadline_ && timed_out_.empty()) {
      std::ostringstream reason;
      reason << "tutti: Timed out as a message had not ended after " << message.limit_.count()
             << " ms";
      timed_out_ = reason.str();
      library().comm_abort(comm_, timed_out_.c_str());
      status = library().test(&message.request_, &over);
    }
    if (status == TUTTI_OK && over == 0) {
      ++at;
      continue;
    }
    try {
      TORCH_CHECK(status == TUTTI_OK || timed_out_.empty(), timed_out_);
      check(status, "message", comm_);
    } catch (...) {
      message.error_ = std::current_exception();
    }
    ended.push_back(std::move(*at));
    at = in_flight_.erase(at);
  }
}

// Whether something ended.
bool Messages::advance() {
  std::vector<c10::intrusive_ptr<Message>> ended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    poll(ended);
    if (ended.empty()) return false;
    ending_.push_back(std::this_thread::get_id());
  }
  const Serving serving;
  for (const auto& message : ended) {
    auto failure = message->error_;
    try {
      at::AutoDispatchBelowADInplaceOrView below;
      if (message->sender_ != any_peer) message->set_source(message->sender_);
      if (failure == nullptr && message->finish_) message->finish_();
    } catch (...) {
      failure = std::current_exception();
    }
    message->finish_ = nullptr;
    try {
      message->complete(failure);
    } catch (const std::exception& thrown) {
      TORCH_WARN("tutti: a callback has thrown: ", thrown.what());
    }
  }
  ended.clear();
  std::lock_guard<std::mutex> lock(mutex_);
  ending_.erase(std::find(ending_.begin(), ending_.end(), std::this_thread::get_id()));
  return true;
}

void Messages::serve() {
  auto nap = std::chrono::microseconds(shortest_nap);
  int looks = 0;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (in_flight_.empty()) {
        wake_.wait(lock, [this] { return stopping_ || !in_flight_.empty(); });
        nap = shortest_nap;
        looks = 0;
      }
      if (stopping_ && in_flight_.empty()) return;
    }
    if (waiting_.load() > 0) {
      std::this_thread::sleep_for(longest_nap);
    } else if (advance()) {
      nap = shortest_nap;
      looks = 0;
    } else if (++looks < looks_before_nap) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min<std::chrono::microseconds>(2 * nap, longest_nap);
    }
  }
}

FuturePtr Messages::Message::getFuture() {
  std::lock_guard<std::mutex> lock(future_mutex_);
  if (!future_) {
    future_ = new_future();
    if (done()) end(*future_);  // nobody has it yet, so that there are no callbacks to run
  }
  return future_;
}

void Messages::Message::complete(std::exception_ptr failure) {
  finish(failure);
  FuturePtr future;
  {
    std::lock_guard<std::mutex> lock(future_mutex_);
    set_done(std::move(failure));
    future = future_;
  }
  if (future && !future->completed()) end(*future);  // by the program itself
}

bool Messages::Message::wait(Milliseconds timeout) {
  const auto begun = Clock::now();
  auto nap = std::chrono::microseconds(shortest_nap);
  int looks = 0;
  messages_->waiting_.fetch_add(1);
  while (!done()) {
    if (timeout.count() > 0 && Clock::now() - begun > timeout) {
      messages_->waiting_.fetch_sub(1);
      throw_wait_timeout("message", timeout);
    }
    if (messages_->advance()) continue;
    if (++looks < 10 * looks_before_nap) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min<std::chrono::microseconds>(2 * nap, longest_nap);
    }
  }
  messages_->waiting_.fetch_sub(1);
  rethrow();
  return true;
}

// ---------------------------------------------------------------- groups that end elsewhere

namespace {

struct Ends {
  std::mutex mutex;
  std::condition_variable ended;
  int going_on = 0;
  std::atomic<pid_t> process{0};  // whose threads they are
};

// Never destroyed: its threads may be running when the process ends.
Ends& ends() {
  static auto* const all = new Ends;
  return *all;
}

}  // namespace

void end_elsewhere(std::function<void()> end) {
  // Where no thread can be made, what it should end stays as it is.
  auto* const kept = new std::function<void()>(std::move(end));
  const std::lock_guard<std::mutex> lock(ends().mutex);
  try {
    std::thread([kept] {
      (*kept)();
      delete kept;
      const std::lock_guard<std::mutex> ending(ends().mutex);
      --ends().going_on;
      ends().ended.notify_all();
    }).detach();
    ends().process = getpid();
    ++ends().going_on;
  } catch (const std::system_error& none) {
    TORCH_WARN("tutti: a process group could not be ended: ", none.what());
  }
}

void await_ends() {
  if (ends().process != getpid()) return;  // a forked child has none of them
  std::unique_lock<std::mutex> lock(ends().mutex);
  ends().ended.wait(lock, [] { return ends().going_on == 0; });
}

// ---------------------------------------------------------------- several as one

bool JoinedWork::isCompleted() {
  for (const auto& work : works_) {
    if (!work->isCompleted()) return false;
  }
  return true;
}

bool JoinedWork::isSuccess() const {
  for (const auto& work : works_) {
    if (!work->isSuccess()) return false;
  }
  return true;
}

std::exception_ptr JoinedWork::exception() const {
  for (const auto& work : works_) {
    if (auto failure = work->exception()) return failure;
  }
  return nullptr;
}

bool JoinedWork::wait(Milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  for (const auto& work : works_) {
    auto left = timeout;
    if (timeout.count() > 0) {
      left =
          std::max(std::chrono::duration_cast<Milliseconds>(end - Clock::now()), Milliseconds(1));
    }
    work->wait(left);
  }
  return true;
}

Tensors JoinedWork::result() {
  Tensors all;
  for (const auto& work : works_) {
    const auto some = work->result();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

FuturePtr JoinedWork::getFuture() {
  struct State {
    std::mutex mutex;
    size_t left;
    std::exception_ptr failure;
  };
  auto future = new_future();
  auto state = std::make_shared<State>();
  state->left = works_.size();
  auto works = works_;
  auto settle = [future, state, works] {
    if (state->failure != nullptr) {
      future->setError(state->failure);
      return;
    }
    Tensors all;
    for (const auto& work : works) {
      const auto some = work->result();
      all.insert(all.end(), some.begin(), some.end());
    }
    future->markCompleted(c10::IValue(all));
  };
  if (works.empty()) settle();
  for (const auto& work : works) {
    work->getFuture()->addCallback([state, settle](c10::ivalue::Future& one) {
      bool last = false;
      {
        std::lock_guard<std::mutex> lock(state->mutex);
        if (one.hasError() && state->failure == nullptr) state->failure = one.exception_ptr();
        last = --state->left == 0;
      }
      if (last) settle();
    });
  }
  return future;
}

}  // namespace tutti_torch
