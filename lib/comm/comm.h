// A communicator: the ranks that take part, the link between them, and the calls they make.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/process.h"
#include "lib/base/transfers.h"
#include "lib/call/call.h"
#include "lib/comm/adoption.h"
#include "lib/comm/call_queue.h"
#include "lib/comm/call_runner.h"
#include "lib/comm/connection.h"
#include "lib/comm/deadlock.h"
#include "lib/comm/failures.h"
#include "lib/comm/messages.h"
#include "lib/comm/operation.h"
#include "lib/comm/survivors.h"
#include "lib/control/exchange.h"
#include "lib/gpu/host_calls.h"

namespace tutti {

namespace device {
class Driver;
}

class GpuFront;

// One thread at a time, except abort() and what Member allows.
class Communicator final : deadlock::Member, HostCalls, process::Leaver {
 public:
  // Collective over the exchange.
  static Status create(std::unique_ptr<Exchange> exchange, const CommSettings& settings,
                       std::unique_ptr<Communicator>* out);
  // The same without what it has for GPUs and without measuring; `exchange` may serve again.
  static Status create_plain(Exchange& exchange, const CommSettings& settings,
                             std::unique_ptr<Communicator>* out);
  ~Communicator() override;

  // Whether this process has made it, rather than the one that this is a forked child of: then none
  // of the functions below may be called, and it is never destroyed.
  [[gnu::always_inline]] bool is_here() const { return process::is_this(process_); }

  int rank() const { return connection_.rank; }
  int nranks() const { return connection_.nranks; }
  bool share_memory() const { return connection_.capabilities.all_share_memory; }
  const char* transport() const { return connection_.link ? connection_.link->name() : "none"; }
  const CommSettings& settings() const { return connection_.settings; }
  const TuningTable& tuning() const { return connection_.tuning; }
  const Capabilities& capabilities() const { return connection_.capabilities; }
  uint64_t calls() const { return runner_.calls(); }
  uint64_t serial() const { return connection_.serial; }
  // Calls so far that copied directly from one rank's memory to another's.
  uint64_t direct_calls() const {
    const shared::Protocols* const shared = runner_.protocols().shared();
    return shared != nullptr ? shared->direct_calls() : 0;
  }
  // What was moved so far.
  Transfers transfers();
  // The last failure of a call, with its full sentence; OK if none failed.
  const Status& last_error() const { return failures_.last_error(); }
  // As fail(), of what is refused before it has begun: tells the ranks that wait for this one in
  // it. A collective, blocking or not; messages, by the first of them; a call on a stream.
  tutti_status refuse(Status why) override;
  tutti_status refuse(Status why, std::span<const Message> messages) override;
  tutti_status refuse(Status why, const Operation& operation);
  tutti_status refuse_on_stream(Status why) override;

  // Runs a collective to its end, after what is in flight.
  tutti_status run(const Call& call) {
    if (gpu_ == nullptr && adoption_ == nullptr) [[likely]]
      return run_on_host(call);
    return gpu_ != nullptr ? run_anywhere(call) : run_and_adopt(call);
  }

  // Nonblocking calls run in the order in which they were started, except that adjacent messages
  // run concurrently. prepare() prepares `operation` once; then it may be started whenever it is
  // not active. After start() it must stay valid until wait() or test() has said that it ended; if
  // these fail, it has ended, too.
  tutti_status prepare(Operation* operation);
  void start(Operation* operation) {
    enter();
    queue_.start(operation);
  }
  tutti_status wait(Operation* operation) {
    enter();
    return queue_.wait(operation);
  }
  // Waits until one of `operations` has ended. All are active; the first is this communicator's.
  void wait_any(std::span<Operation* const> operations) {
    enter();
    queue_.wait_any(operations);
  }
  tutti_status test(Operation* operation, bool* ended) {
    enter();
    return queue_.test(operation, ended);
  }
  // What is in flight, in words; empty if nothing is: only then may the communicator be freed.
  std::string what_is_in_flight() { return queue_.describe(); }
  // Enqueues a collective on memory of the communicator's GPU.
  tutti_status enqueue(const Call& call, void* stream);
  // The first failure of what was enqueued.
  tutti_status device_status();
  // Runs messages concurrently, those with one peer in order; between group_begin() and group_end()
  // only records them.
  tutti_status exchange(std::span<const Message> messages, int64_t timeout_ms);
  tutti_status send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                    const CallSettings& settings);
  tutti_status recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                    const CallSettings& settings);
  tutti_status group_begin();
  tutti_status group_end(int64_t timeout_ms);
  tutti_status group_cancel();
  // INVALID while a group of messages is open: for calls that cannot be part of one.
  [[gnu::always_inline]] Status outside_group() const {
    if (!grouping_) [[likely]]
      return {};
    return {TUTTI_INVALID, "a call between tutti_group_begin() and _end() that is no message"};
  }

  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Explained* out) {
    return runner_.planner().explain_allreduce(count, dtype, op, settings, out);
  }

  // INVALID where one of them lies on a GPU: for calls that take memory of the host only.
  Status check_on_host(std::initializer_list<const void*> buffers) const;

  // Memory that the other ranks reach directly where they can. All but the last are collective.
  tutti_status mem_alloc(size_t bytes, void** out);
  tutti_status mem_register(void* address, size_t bytes, int fd, uint64_t offset);
  tutti_status mem_adopt(void* address, size_t bytes);
  tutti_status mem_release(const void* address);
  // As mem_adopt(), without keeping an error.
  Status share_in_place(void* address, size_t bytes, shared::Adopted::End end,
                        uint64_t deadline_ns);
  // The same on the communicator's GPU.
  tutti_status mem_alloc_device(size_t bytes, void** out);
  tutti_status mem_register_device(void* address, size_t bytes);

  // Collective. *out stays empty for color < 0.
  tutti_status split(int color, int key, std::unique_ptr<Communicator>* out);
  // Collective.
  tutti_status split_host(int key, std::unique_ptr<Communicator>* out);
  // Collective over `members`, which are distinct ranks, the own one among them.
  tutti_status create_group(std::vector<int> members, std::unique_ptr<Communicator>* out);

  // Collective: agree_on() (lib/control/agree.h) among the ranks. An error of a rank's own leaves
  // the communicator as it is.
  Status tell_all(const Status& mine, std::string_view text, std::vector<std::string>* all);

  // What is left after a failure (tutti.h). The first is local.
  RankSet failed_ranks();
  tutti_status decide(uint64_t* value, int64_t timeout_ms);
  tutti_status shrink(int64_t timeout_ms, std::unique_ptr<Communicator>* out);

  // Any thread; never block. The second is for callers that have the reason as a Status.
  void abort(std::string_view reason);
  void abort(const Status& why) { failures_.abort(why); }

  // While one lives the program is in a call on the communicator: peers are told so if the process
  // exits meanwhile.
  class InCall {
   public:
    [[gnu::always_inline]] explicit InCall(Communicator& c)
        : place_(c.in_call_), before_(place_.load(std::memory_order_relaxed)) {
      place_.store(true, std::memory_order_relaxed);
    }
    [[gnu::always_inline]] ~InCall() { place_.store(before_, std::memory_order_release); }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    std::atomic<bool>& place_;
    bool before_;
  };
  // Any thread.
  bool in_call() const { return in_call_.load(std::memory_order_acquire); }

  // Runs a slice of a call of `whole` elements, on which ranks must agree, too. For calls on GPUs.
  tutti_status run_slice(const Call& call, uint64_t whole) {
    const InCall in_call(*this);
    runner_.set_slice_of(whole);
    try {
      return run_on_host(call);
    } catch (...) {
      return abandon();
    }
  }

  // The calling thread will make the calls. The deadlock search has to know it before the first
  // call (deadlock.h).
  void claim() { enter(); }
  // Of a communicator whose buffers only its link may access: whether it can make the call. Any
  // thread.
  bool can_move(const CallKey& key) const { return runner_.planner().can_move(key); }

  // Keeps `status` as the last error and returns its code; for errors found before a call starts.
  tutti_status fail(Status status) override { return failures_.fail(std::move(status)); }
  // The same for an error between the collectives of a compound call, the last of which had the key
  // `last`: the communicator is over, for all ranks.
  tutti_status break_off(Status status, const CallKey& last);
  // A failure that no call has returned yet, or that one of these ranks is gone; OK if there is
  // none.
  Status look(std::span<const int> members) { return queue_.look(members); }
  // In a handler: what the exception says, in this rank's name.
  Status own_failure() const noexcept { return failures_.own_failure(); }
  // In a handler: a call that other ranks may wait for has thrown, perhaps before it had begun. The
  // communicator is over, for all ranks.
  tutti_status abandon() { return queue_.abandon(own_failure()); }
  // Uninitialised memory for compound calls, kept for the next one. Each place has one piece, which
  // is valid until that place is asked for again. Throws std::bad_alloc.
  static constexpr size_t compound_places = 6;
  std::byte* compound_memory(size_t place, size_t bytes);

 private:
  Communicator();
  std::string describe() const;  // for the log
  std::string describe_links() const;
  // `ready`: whether this rank can take part.
  Status connect(Exchange& exchange, Status ready);
  void set_patience(double ranks_per_core);
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
  tutti_status run_and_adopt(const Call& call);
  tutti_status run_messages(std::span<const Message> messages, int64_t timeout_ms);
  tutti_status close_group(std::vector<Message>* noted);
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
  void begin_on_stream() override;
  void abort_link(const Status& why) override { failures_.abort_link(why); }

  Status open_device(Exchange& exchange, uint64_t deadline_ns);
  Status make_slice_hosts(Exchange& exchange, device::Driver& driver, int device,
                          uint64_t deadline_ns, SliceHosts* out);
  Status check_direct(const Communicator& staged, device::Driver& driver, int device) const;
  // Allgather: every rank gives `mine`; (*all)[r] is what rank r gave.
  template <class Entry>
  Status tell_entries(const Entry& mine, std::vector<Entry>* all);
  tutti_status make_part(const std::vector<int>& members, std::unique_ptr<Communicator>* out);

  Survivors& survivors();
  // INVALID while calls are in flight or a group of messages is open.
  Status ready_to_meet();
  Status make_of_survivors(const RankSet& members, uint64_t limit_ns,
                           std::unique_ptr<Communicator>* out);

  // The calling thread begins a call on the communicator.
  void enter() {
    const void* const thread = deadlock::this_thread();
    if (owner_.load(std::memory_order_relaxed) != thread) [[unlikely]]
      share(thread);
  }
  void share(const void* thread);
  bool rests_with(const void* thread, bool alone) const override;
  void post(Note note) override;
  void at_exit() noexcept override { connection_.link->leave(in_call() || queue_.busy()); }

  const uint32_t process_ = process::number_of_this();
  std::atomic<bool> in_call_{false};
  Connection connection_;
  Failures failures_{connection_};
  shared::Regions regions_{shared::Regions::Reach::none};
  std::unique_ptr<Adoption> adoption_;  // null: none
  // The only thread that has made calls; null: none has; `this`: more than one has.
  std::atomic<const void*> owner_{nullptr};
  CallRunner runner_{connection_, failures_, this};
  Messages messages_{connection_, failures_, runner_};
  bool grouping_ = false;  // a group of messages is open, which are only recorded
  std::vector<Message> group_;
  CallQueue queue_{connection_, failures_, runner_, messages_};
  struct Kept {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  std::array<Kept, compound_places> compound_memory_;
  std::unique_ptr<Survivors> survivors_;  // null: nobody has asked for them
  bool shrunk_ = false;                   // or could not be
  std::shared_ptr<CommunicatorRef> self_ = std::make_shared<CommunicatorRef>(this);

  std::unique_ptr<GpuFront> gpu_;  // null: none
};

}  // namespace tutti
