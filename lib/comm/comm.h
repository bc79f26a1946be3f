// A communicator: the ranks that take part, the link between them, and the calls they make.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/transfers.h"
#include "lib/call/call.h"
#include "lib/comm/call_queue.h"
#include "lib/comm/call_runner.h"
#include "lib/comm/connection.h"
#include "lib/comm/deadlock.h"
#include "lib/comm/failures.h"
#include "lib/comm/messages.h"
#include "lib/comm/operation.h"
#include "lib/control/exchange.h"
#include "lib/gpu/host_calls.h"

namespace tutti {

namespace device {
class Driver;
}

class GpuFront;

// One thread at a time, except abort() and what Member says.
class Communicator final : deadlock::Member, HostCalls {
 public:
  // Collective over the exchange.
  static Status create(std::unique_ptr<Exchange> exchange, const CommSettings& settings,
                       std::unique_ptr<Communicator>* out);
  ~Communicator() override;

  int rank() const { return connection_.rank; }
  int nranks() const { return connection_.nranks; }
  const char* transport() const { return connection_.link ? connection_.link->name() : "none"; }
  const CommSettings& settings() const { return connection_.settings; }
  uint64_t calls() const { return runner_.calls(); }
  uint64_t serial() const { return connection_.serial; }
  // Calls so far that went directly from the ranks' memory to the ranks' memory.
  uint64_t direct_calls() const {
    const shared::Protocols* const shared = runner_.protocols().shared();
    return shared != nullptr ? shared->direct_calls() : 0;
  }
  // What was moved so far.
  Transfers transfers();
  // The last failure of a call, with its full sentence; OK if none failed.
  const Status& last_error() const { return failures_.last_error(); }

  // Runs a collective to its end, after what is in flight.
  tutti_status run(const Call& call) {
    return gpu_ == nullptr ? run_on_host(call) : run_anywhere(call);
  }

  // Calls that run beside their caller: all in the order in which they were started, but for
  // messages next to each other, which run at once. prepare() makes ready what `operation` is to
  // do, once; then it may be started whenever it is not active. After start() the operation must
  // stay until wait() or test() has said that it ended; it has ended, too, when they fail.
  tutti_status prepare(Operation* operation);
  void start(Operation* operation) {
    enter();
    queue_.start(operation);
  }
  tutti_status wait(Operation* operation) {
    enter();
    return queue_.wait(operation);
  }
  // Until one of `operations` has ended, the first of which is this communicator's; all are active.
  void wait_any(std::span<Operation* const> operations) {
    enter();
    queue_.wait_any(operations);
  }
  tutti_status test(Operation* operation, bool* ended) {
    enter();
    return queue_.test(operation, ended);
  }
  // What is in flight, if anything: then the communicator may not be freed.
  std::string what_is_in_flight() { return queue_.describe(); }
  // Enqueues a collective on memory of the communicator's GPU.
  tutti_status enqueue(const Call& call, void* stream);
  // The first failure of what was enqueued.
  tutti_status device_status();
  // Runs messages at once, those with a peer in their order; between group_begin() and group_end()
  // only notes them.
  tutti_status exchange(std::span<const Message> messages, int64_t timeout_ms);
  tutti_status send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                    const CallSettings& settings);
  tutti_status recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                    const CallSettings& settings);
  tutti_status group_begin() { return messages_.group_begin(); }
  tutti_status group_end(int64_t timeout_ms);
  tutti_status group_cancel();
  // For what cannot be one of a group of messages.
  [[gnu::always_inline]] Status outside_group() const {
    if (!messages_.grouping()) [[likely]]
      return {};
    return {TUTTI_INVALID, "a call between tutti_group_begin() and _end() that is no message"};
  }

  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Choice* out) {
    return runner_.planner().explain_allreduce(count, dtype, op, settings, out);
  }

  // INVALID where one of them lies on a GPU: for calls that take memory of the host only.
  Status check_on_host(std::initializer_list<const void*> buffers) const;

  // Memory that the other ranks reach directly where they can. The first two are collective.
  tutti_status mem_alloc(size_t bytes, void** out);
  tutti_status mem_register(void* address, size_t bytes, int fd, uint64_t offset);
  tutti_status mem_release(const void* address);
  // The same on the communicator's GPU.
  tutti_status mem_alloc_device(size_t bytes, void** out);
  tutti_status mem_register_device(void* address, size_t bytes);

  // Collective. *out stays empty for color < 0.
  tutti_status split(int color, int key, std::unique_ptr<Communicator>* out);
  // Collective.
  tutti_status split_host(int key, std::unique_ptr<Communicator>* out);
  // Collective over `members`, which are distinct ranks, the own one among them.
  tutti_status create_group(std::vector<int> members, std::unique_ptr<Communicator>* out);

  // Any thread; never block. The second is for whoever knows why.
  void abort(std::string_view reason);
  void abort(const Status& why) { failures_.abort(why); }

  // A collective of so many elements of a call of `whole`, which ranks agree on, too. For
  // slices of calls on GPUs.
  tutti_status run_slice(const Call& call, uint64_t whole) {
    runner_.set_slice_of(whole);
    try {
      return run_on_host(call);
    } catch (...) {
      return abandon();
    }
  }

  // Whoever calls this will make the calls: known before the first, so that circles of ranks that
  // wait for each other on several communicators are found (deadlock.h).
  void claim() { enter(); }
  // Whether it can make the call, being one of memory that only its link may touch. Any thread.
  bool can_move(const CallKey& key) const { return runner_.planner().can_move(key); }

  // Keeps `status` as the last error and returns its code; for errors found before a call starts.
  tutti_status fail(Status status) override { return failures_.fail(std::move(status)); }
  // The same for an error between the collectives of a compound call, whose last one was like
  // `last`: the communicator is over, for all.
  tutti_status break_off(Status status, const CallKey& last);
  // Whether something has gone wrong that no call has met yet.
  Status look() { return queue_.look(); }
  // In a handler: what the exception says, in this rank's name.
  Status own_failure() const noexcept { return failures_.own_failure(); }
  // In a handler of what was thrown out of a call, maybe before it had begun, for which other ranks
  // wait: the communicator is over, for all.
  tutti_status abandon() { return queue_.abandon(own_failure()); }
  // Memory for compound calls, uninitialised, kept for the next one: each of the places holds one
  // piece of it, valid until it is asked for again. Throws std::bad_alloc.
  static constexpr size_t compound_places = 6;
  std::byte* compound_memory(size_t place, size_t bytes);

 private:
  Communicator();
  Status connect(Exchange& exchange);
  Status open_links(Exchange& exchange, std::vector<std::vector<uint8_t>>& peers, uint64_t comm_id,
                    uint64_t deadline_ns);
  tutti_status run_on_host(const Call& call) override {
    enter();
    if (queue_.busy()) [[unlikely]]
      return queue_.run_behind(call);
    return runner_.run(call);
  }
  tutti_status run_on_host(std::span<const Message> messages, int64_t timeout_ms) override {
    enter();
    return queue_.busy() ? queue_.run_behind(messages, timeout_ms)
                         : messages_.run(messages, timeout_ms);
  }
  // Of a communicator with a GPU: where it runs follows from where all ranks' buffers lie.
  tutti_status run_anywhere(const Call& call);
  tutti_status run_messages(std::span<const Message> messages, int64_t timeout_ms);
  Status plan_on_host(const CallKey& key, HostPlan* out) override;
  tutti_level level_of(const CallKey& key) const override {
    return runner_.planner().level_of(key);
  }
  uint64_t timeout_ns(int64_t timeout_ms) const override {
    return connection_.timeout_ns(timeout_ms);
  }
  tutti_status give_up(Status status, const std::string& where) override {
    return failures_.give_up(std::move(status), where);
  }
  bool over() const override { return failures_.over(); }
  void adopt(Status why) override { failures_.adopt(std::move(why)); }
  void abort_link(const Status& why) override { failures_.abort_link(why); }

  Status open_device(Exchange& exchange, uint64_t deadline_ns);
  Status make_slice_hosts(Exchange& exchange, device::Driver& driver, int device,
                          uint64_t deadline_ns, SliceHosts* out);
  Status check_direct(const Communicator& staged, device::Driver& driver, int device) const;
  // Every rank says `mine`, which is as long on all; what rank r said begins at (*all)[r].
  template <class Entry>
  Status tell_entries(const Entry& mine, std::vector<Entry>* all);
  tutti_status make_part(std::vector<int> members, std::unique_ptr<Communicator>* out);

  // A call on the communicator by the calling thread.
  void enter() {
    const void* const thread = deadlock::this_thread();
    if (owner_.load(std::memory_order_relaxed) != thread) [[unlikely]]
      share(thread);
  }
  void share(const void* thread);
  bool rests_with(const void* thread, bool alone) const override;
  void post(Note note) override;

  Connection connection_;
  Failures failures_{connection_};
  shared::Regions regions_{shared::Regions::Reach::none, nullptr};
  // The thread that calls; null: none has yet, `this`: there were two.
  std::atomic<const void*> owner_{nullptr};
  CallRunner runner_{connection_, failures_, this};
  Messages messages_{connection_, failures_};
  CallQueue queue_{connection_, failures_, runner_, messages_};
  struct Kept {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  std::array<Kept, compound_places> compound_memory_;
  std::shared_ptr<CommunicatorRef> self_ = std::make_shared<CommunicatorRef>(this);

  std::unique_ptr<GpuFront> gpu_;  // null: none
};

}  // namespace tutti
