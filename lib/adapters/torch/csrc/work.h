// What a process group has begun: works, and the two ways in which they end. Collectives run one
// after another, in the order in which they were issued, each as a blocking call of tutti; messages
// are requests, all of which are in flight at once.
#pragma once

#include <ATen/core/ivalue.h>  // Clang finds it incomplete after the others of 1.13

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "library.h"

namespace tutti_torch {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;

// Throws what torch expects for a failed call: " Timed out " is in the sentence of a timeout.
// `comm` may be NULL.
void check(tutti_status status, const char* what, tutti_comm comm);

// A failure to wait in time, which leaves what is waited for as it is.
[[noreturn]] void throw_wait_timeout(const std::string& what, Milliseconds limit);

// One call. Keeps what it needs, tensors above all, until it is done.
class TuttiWork : public c10d::Work {
 public:
  // `outputs`: the value of the future and result().
  TuttiWork(int rank, c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs,
            uint64_t sequence, int source);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  Tensors result() override;
  // On the processor, what is done is visible to all.
  void synchronize() override {}
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const;

 protected:
  // Once. Runs the callbacks of the future.
  void complete(std::exception_ptr failure);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // If failed.
  void rethrow() const;
  void set_source(int rank) { source_.store(rank, std::memory_order_relaxed); }

 private:
  const Tensors outputs_;
  const uint64_t sequence_;
  std::atomic<int> source_;
  std::atomic<bool> done_{false};
  std::exception_ptr failure_;  // written before done_
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The collectives of a group. A thread of the queue runs them, so that they proceed while the
// program computes; but who waits for a call whose turn it is runs it itself, which spares two
// switches of threads.
//
// Calls run in the order in which the program issued them. What a callback of a call's future
// issues counts as issued where the program asked for that future, whenever the callback runs: so
// all ranks run one order, though their calls end at different times, as long as callbacks are
// attached before the next call is issued. A callback may wait for any call issued before that
// place, and for its own: the thread that is in it, which has the queue, runs them.
class CallQueue {
 public:
  class Call;

  CallQueue() : thread_([this] { serve(); }) {}
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;
  // What is queued still runs: abort the communicator before, where that must not wait for peers.
  ~CallQueue();

  void push(c10::intrusive_ptr<Call> call);
  // False: there is still something to run.
  bool drain(Milliseconds limit);

 private:
  class Callbacks;
  // Of a call or a future in the order of the program, compared from the left: the n-th thing that
  // the program issued or asked for is {n}, the m-th of the callbacks of a future at {n} is {n, m}.
  using Place = std::vector<uint64_t>;

  void serve();
  // All under the mutex, which `lock` holds.
  Place next_place();
  void run_queued(std::unique_lock<std::mutex>& lock, const Call* last);
  void take_and_run(std::unique_lock<std::mutex>& lock, const Call* last);

  // limit 0: none.
  void wait_for(const Call& call, Milliseconds limit);
  // The future of this call is asked for.
  void will_have_future(Call& call);

  std::mutex mutex_;
  std::condition_variable wake_;                // of the thread
  std::condition_variable ended_;               // of a call
  std::deque<c10::intrusive_ptr<Call>> queue_;  // in order of place
  uint64_t last_place_ = 0;                     // of the program, outside of callbacks
  std::chrono::steady_clock::time_point last_call_;
  bool running_ = false;  // by some thread
  bool asleep_ = false;   // the thread, until it is woken
  bool stopping_ = false;
  std::thread thread_;
};

class CallQueue::Call final : public TuttiWork {
 public:
  // `run` is called once, by any thread, and throws to fail. The queue must outlive the waits.
  template <class... Args>
  Call(CallQueue& queue, std::function<void()> run, Args&&... args)
      : TuttiWork(std::forward<Args>(args)...), queue_(queue), run_(std::move(run)) {}

  bool wait(Milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  friend class CallQueue;
  void run();

  CallQueue& queue_;
  std::function<void()> run_;
  Place place_;
  Place future_place_;  // empty until the future is asked for
  std::chrono::steady_clock::time_point issued_;
};

// Sends and receives of a group, on a communicator of their own: so they neither wait for
// collectives nor hold them up.
class Messages {
 public:
  class Message;

  // The communicator stays the caller's.
  explicit Messages(tutti_comm comm) : comm_(comm), thread_([this] { serve(); }) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  // Abort the communicator before, where something may be in flight.
  ~Messages();

  // For begin(): receives from any rank, which the message then has as its source.
  static constexpr int any_peer = -1;
  // Begins a message of `bytes` bytes; does not block.
  void begin(c10::intrusive_ptr<Message> message, bool send, void* buffer, size_t bytes, int peer,
             int tag, Milliseconds limit);
  bool idle();

 private:
  void serve();
  // Under the mutex. Moves those that have ended to `ended`.
  void poll(std::vector<c10::intrusive_ptr<Message>>& ended);
  bool advance();

  tutti_comm comm_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<c10::intrusive_ptr<Message>> in_flight_;
  std::string timed_out_;        // what ended all of them; empty: nothing has
  std::atomic<int> waiting_{0};  // threads that advance messages themselves
  bool stopping_ = false;
  std::thread thread_;
};

class Messages::Message final : public TuttiWork {
 public:
  // `finish` is called after the message has arrived.
  template <class... Args>
  Message(Messages& messages, std::function<void()> finish, Args&&... args)
      : TuttiWork(std::forward<Args>(args)...), messages_(messages), finish_(std::move(finish)) {}

  bool wait(Milliseconds timeout) override;

 private:
  friend class Messages;

  Messages& messages_;
  std::function<void()> finish_;
  tutti_request request_ = nullptr;
  int sender_ = Messages::any_peer;  // of a receive from any rank, once it has ended
  std::exception_ptr error_;
  Milliseconds limit_{0};
  std::chrono::steady_clock::time_point deadline_;
};

// Several works as one: it has ended when all have.
class JoinedWork final : public c10d::Work {
 public:
  JoinedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
      : c10d::Work(rank, c10d::OpType::UNKNOWN), works_(std::move(works)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(Milliseconds timeout) override;
  void synchronize() override {}
  Tensors result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace tutti_torch
