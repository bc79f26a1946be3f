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
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "library.h"

namespace tutti_torch {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

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
  uint64_t getSequencenumber() const;

 protected:
  // Once, after finish(): that tells a profiler, which may be gone once a wait has returned.
  void set_done(std::exception_ptr failure);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // If failed.
  void rethrow() const;
  void set_source(int rank) { source_.store(rank, std::memory_order_relaxed); }
  // Of a work that is done: runs the callbacks of the future.
  void end(c10::ivalue::Future& future) const;

 private:
  const Tensors outputs_;
  const uint64_t sequence_;
  std::atomic<int> source_;
  std::atomic<bool> done_{false};
  std::exception_ptr failure_;  // written before done_
};

// While this thread runs what a group has to run, as a callback: it must close no group then. Two
// groups may be dropped in callbacks of each other.
class Serving {
 public:
  Serving() { ++depth_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { --depth_; }
  static bool here() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

// The collectives of a group. A thread of the queue runs them, so that they proceed while the
// program computes; but who waits for a call whose turn it is runs it itself, which spares two
// switches of threads.
//
// Calls run in the order in which the program issued them. Each future of a call has a place in
// that order, too, where the program asked for it; there its callbacks run, and what they issue,
// however early the call has ended. So all ranks run one order as long as a callback, and what is
// chained to it, is attached before the program issues, asks for or attaches anything else, and
// callbacks issue calls of this group only. (Where the future has ended already, torch runs the
// callback at once, in the program.) A callback may wait for works of before that place, and for
// what it issues itself: its thread, which has the queue, runs them.
class CallQueue {
 public:
  class Call;

  CallQueue() : thread_([this] { serve(); }) {}
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;
  ~CallQueue() { stop(); }

  // Ends the thread. What is queued still runs: abort the communicator before, where that must not
  // wait for peers.
  void stop();
  void push(c10::intrusive_ptr<Call> call);
  // False: there is still something to run.
  bool drain(Milliseconds limit);
  // Whether this thread is in a callback of a future of a call.
  bool in_callback() const;
  // Whether this thread is in one, or in something else that the queue runs: it must not stop() it.
  bool runs_here();

 private:
  class Callbacks;
  // In the order of the program, compared from the left: the n-th thing that the program issued or
  // asked for is {n}, the m-th of the callbacks of a future at {n} is {n, m}.
  using Place = std::vector<uint64_t>;
  // What is done in its turn: a call, or the end of one of its futures.
  struct Entry {
    Place place;
    c10::intrusive_ptr<Call> call;
    FuturePtr future;  // null: the call itself
    std::chrono::steady_clock::time_point issued;
  };

  void serve();
  bool running() const { return runner_ != std::thread::id(); }
  // Under the mutex.
  void insert(c10::intrusive_ptr<Call> call, FuturePtr future);
  // These leave the mutex, which `lock` holds, while they run something. Up to `last` and the ends
  // of its futures, NULL: all.
  void run_queued(std::unique_lock<std::mutex>& lock, const Call* last);
  void take_and_run(std::unique_lock<std::mutex>& lock, const Call* last);
  void run(const Entry& entry);

  // limit 0: none.
  void wait_for(const Call& call, Milliseconds limit);
  // A future that ends in its turn. Null: the call is done.
  FuturePtr future_of(Call& call);

  std::mutex mutex_;
  std::condition_variable wake_;   // of the thread
  std::condition_variable ended_;  // of a call
  std::deque<Entry> queue_;        // in order of place
  uint64_t last_place_ = 0;        // of the program, outside of callbacks
  std::chrono::steady_clock::time_point last_call_;
  std::thread::id runner_;  // the thread that runs what is queued; none: nobody does
  bool asleep_ = false;     // the thread, until it is woken
  bool stopping_ = false;
  std::thread thread_;
};

class CallQueue::Call final : public TuttiWork {
 public:
  // `run` is called once, by any thread, and throws to fail.
  template <class... Args>
  Call(std::shared_ptr<CallQueue> queue, std::function<void()> run, Args&&... args)
      : TuttiWork(std::forward<Args>(args)...), queue_(std::move(queue)), run_(std::move(run)) {}

  bool wait(Milliseconds timeout) override;
  // Another one each time.
  FuturePtr getFuture() override;

 private:
  friend class CallQueue;
  void run();

  const std::shared_ptr<CallQueue> queue_;  // which a wait may outlive its group in
  std::function<void()> run_;
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
  ~Messages() { stop(); }
  // Ends the thread. Abort the communicator before, where something may be in flight.
  void stop();

  // For begin(): receives from any rank, which the message then has as its source.
  static constexpr int any_peer = -1;
  // Begins a message of `bytes` bytes; does not block.
  void begin(c10::intrusive_ptr<Message> message, bool send, void* buffer, size_t bytes, int peer,
             int tag, Milliseconds limit);
  bool idle();
  // Whether this thread ends messages, in a callback of one's future perhaps: it must not stop().
  bool runs_here();

 private:
  void serve();
  // Under the mutex. Moves those that have ended to `ended`.
  void poll(std::vector<c10::intrusive_ptr<Message>>& ended);
  bool advance();

  tutti_comm comm_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<c10::intrusive_ptr<Message>> in_flight_;
  std::string timed_out_;                // what ended all of them; empty: nothing has
  std::atomic<int> waiting_{0};          // threads that advance messages themselves
  std::vector<std::thread::id> ending_;  // the threads that end messages
  bool stopping_ = false;
  std::thread thread_;
};

class Messages::Message final : public TuttiWork {
 public:
  // `finish` is called after the message has arrived.
  template <class... Args>
  Message(std::shared_ptr<Messages> messages, std::function<void()> finish, Args&&... args)
      : TuttiWork(std::forward<Args>(args)...),
        messages_(std::move(messages)),
        finish_(std::move(finish)) {}

  bool wait(Milliseconds timeout) override;
  FuturePtr getFuture() override;

 private:
  friend class Messages;
  void complete(std::exception_ptr failure);

  const std::shared_ptr<Messages> messages_;
  std::function<void()> finish_;
  tutti_request request_ = nullptr;
  int sender_ = Messages::any_peer;  // of a receive from any rank, once it has ended
  std::exception_ptr error_;
  Milliseconds limit_{0};
  std::chrono::steady_clock::time_point deadline_;
  std::mutex future_mutex_;
  FuturePtr future_;
};

// Calls what ends a group in a thread of its own.
void end_elsewhere(std::function<void()> end);
// Returns when all of these have ended.
void await_ends();

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
  FuturePtr getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace tutti_torch
