// A communicator: the ranks that take part, the link between them, and the calls they make.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/lock.h"
#include "lib/base/transfers.h"
#include "lib/call/call.h"
#include "lib/comm/call_cache.h"
#include "lib/comm/deadlock.h"
#include "lib/comm/message.h"
#include "lib/comm/operation.h"
#include "lib/comm/protocols.h"
#include "lib/comm/traffic.h"
#include "lib/control/exchange.h"
#include "lib/progress/in_flight.h"
#include "lib/progress/wait.h"
#include "lib/reduce/reduce.h"
#include "transports/registry.h"

namespace tutti {

class DeviceCalls;
class PinnedCopies;

// Of what the library decides by itself unless it is told.
enum class Use : uint8_t { automatic, always, never };

struct CommSettings {
  std::vector<std::string> transports = transport_names();  // allowed, best first
  bool transports_named = false;  // by the program or its user: also those not worthwhile here
  std::string interface;
  int64_t timeout_ms = 30'000;
  int64_t setup_ms = 60'000;
  bool progress_thread = false;
  Use single_copy = Use::automatic;      // of other ranks' private memory
  Use non_temporal = Use::automatic;     // for slices in shared memory
  bool check_results = false;            // that those of a call are equal on all ranks
  tutti_level level = TUTTI_LEVEL_FAST;  // of calls that do not name one
  int device = no_device;                // a GPU's number
  bool devices_through_host = false;     // TUTTI_DEVICE_PATH
  Use ucx_device = Use::automatic;       // TUTTI_UCX_DEVICE
  // Other than host: what ranks have and get nobody but the link touches, so only calls that move
  // data can be made, and what a rank gets of its own its caller puts there.
  LinkMemory memory = LinkMemory::host;
  static constexpr int no_device = -1;
  static constexpr int current_device = -2;  // the thread's
};

// What `place` points to for the time of a wait.
class Limited {
 public:
  Limited(Limit** place, Limit* limit) : place_(place) { *place = limit; }
  ~Limited() { *place_ = nullptr; }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  Limit** place_;
};

// One thread at a time, except abort() and what Member says.
class Communicator final : in_flight::Member, deadlock::Member {
 public:
  // Collective over the exchange.
  static Status create(std::unique_ptr<Exchange> exchange, const CommSettings& settings,
                       std::unique_ptr<Communicator>* out);
  ~Communicator() override;

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  const char* transport() const { return link_ ? link_->name() : "none"; }
  const CommSettings& settings() const { return settings_; }
  uint64_t calls() const { return epoch_.load(std::memory_order_relaxed); }
  uint64_t serial() const { return serial_; }  // no other communicator of the process has it
  // Calls so far that went directly from the ranks' memory to the ranks' memory.
  uint64_t direct_calls() const {
    return protocols_.shared() != nullptr ? protocols_.shared()->direct_calls() : 0;
  }
  // What was moved so far.
  Transfers transfers();
  // The last failure of a call, with its full sentence; OK if none failed.
  const Status& last_error() const { return last_error_; }

  // Runs a collective to its end, after what is in flight.
  tutti_status run(const Call& call) {
    return device_ == nullptr ? run_on_host(call) : run_anywhere(call);
  }

  // Calls that run beside their caller: all in the order in which they were started, but for
  // messages next to each other, which run at once. prepare() makes ready what `operation` is to
  // do, once; then it may be started whenever it is not active. After start() the operation must
  // stay until wait() or test() has said that it ended; it has ended, too, when they fail.
  tutti_status prepare(Operation* operation);
  void start(Operation* operation);
  tutti_status wait(Operation* operation);
  // Until one of `operations` has ended, the first of which is this communicator's; all are active.
  void wait_any(std::span<Operation* const> operations);
  tutti_status test(Operation* operation, bool* ended);
  // What is in flight, if anything: then the communicator may not be freed.
  std::string what_is_in_flight();
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
  tutti_status group_begin();
  tutti_status group_end(int64_t timeout_ms);
  tutti_status group_cancel();
  // For what cannot be one of a group of messages.
  [[gnu::always_inline]] Status outside_group() const {
    if (!grouping_) [[likely]]
      return {};
    return {TUTTI_INVALID, "a call between tutti_group_begin() and _end() that is no message"};
  }

  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Choice* out);

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
  void abort(const Status& why);

  // A collective of so many elements of a call of `whole`, which ranks agree on, too. For
  // DeviceProxy's thread.
  tutti_status run_slice(const Call& call, uint64_t whole) {
    slice_of_ = whole;
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
  bool can_move(const CallKey& key) const;

  // Keeps `status` as the last error and returns its code; for errors found before a call starts.
  tutti_status fail(Status status);
  // The same for an error between the collectives of a compound call, whose last one was like
  // `last`: the communicator is over, for all.
  tutti_status break_off(Status status, const CallKey& last);
  // Whether something has gone wrong that no call has met yet.
  Status look();
  // In a handler: what the exception says, in this rank's name.
  Status own_failure() const noexcept;
  // In a handler of what was thrown out of a call, maybe before it had begun, for which other ranks
  // wait: the communicator is over, for all.
  tutti_status abandon();
  // Memory for compound calls, uninitialised, kept for the next one: each of the places holds one
  // piece of it, valid until it is asked for again. Throws std::bad_alloc.
  static constexpr size_t compound_places = 6;
  std::byte* compound_memory(size_t place, size_t bytes);

 private:
  Communicator();
  Status connect(Exchange& exchange);
  Status open_links(Exchange& exchange, std::vector<std::vector<uint8_t>>& peers, uint64_t comm_id,
                    uint64_t deadline_ns);
  tutti_status run_on_host(const Call& call);
  // Of a communicator with a GPU: where it runs follows from where all ranks' buffers lie.
  tutti_status run_anywhere(const Call& call);
  tutti_status run_on_device(const Call& call);
  tutti_status run_staged(const Call& call);
  // Of long vectors, where that does not change bits: copies of one piece beside the call of
  // another.
  bool goes_in_pieces(const Call& call, Call* piece);
  tutti_status run_in_pieces(const Call& call, Call piece);
  tutti_status run_messages_anywhere(std::span<const Message> messages, int64_t timeout_ms) {
    return device_ == nullptr ? run_messages(messages, timeout_ms)
                              : run_messages_staged(messages, timeout_ms);
  }
  tutti_status run_messages_staged(std::span<const Message> messages, int64_t timeout_ms);
  Status open_device(Exchange& exchange, uint64_t deadline_ns);
  Status open_proxy(Exchange& exchange, uint64_t deadline_ns);
  Status check_direct(const Communicator& staged) const;
  // Whether the host can make what it is to make of the call.
  Status check_slices(const Call& call);
  // Where this rank's buffers lie: a set of Lies; INVALID where one is of another GPU.
  Status where_it_lies(const Call& call, uint8_t* out) const;
  tutti_status agree_where(int64_t timeout_ms, uint8_t* lies);
  Status wait_on_device(uint64_t timeout_ns);
  // INVALID where its memory lies on a GPU.
  Status refuse_device(const Operation& operation) const;
  // Keeps why what was enqueued has failed, as the reason why all is over.
  void adopt_device_failure();
  // Finds or makes what is known about calls like this one; null, and the error is kept, if there
  // can be none.
  const std::shared_ptr<CallPlan>* find(const CallKey& key);
  Status prepare(const CallKey& key, std::shared_ptr<CallPlan>* out);
  // Makes memory at least so long; `user` is for whom, in the sentence when it cannot be had.
  static Status grow(std::vector<std::byte>* memory, size_t bytes, const char* user);
  Query query_of(const CallKey& key) const;
  // What all ranks must agree on: fast for calls that do not combine.
  tutti_level level_of(const CallKey& key) const;
  // Finds the kernels, or the program's function, for the level.
  Status bind_operator(CallPlan& call_plan, tutti_level level) const;
  // A pre-multiplied sum: the call's input becomes its product with the scalar.
  Status scale_input(const CallPlan& call_plan, Call* call);

  // The stages of a call. All but complete_call() leave at once; a blocking call goes through them
  // in a row, one in flight in steps.
  //
  // Where a schedule may not read or write the caller's memory it works elsewhere: `call` is
  // `asked` with other places, between these two.
  Status stage_in(const CallPlan& call_plan, const Call& asked, Call* call);
  void stage_out(const CallPlan& call_plan, const Call& asked);
  // `call` and `call_plan` must stay until the end. A call of nothing has ended then.
  Status begin_call(CallPlan& call_plan, const Call& call, bool* ended);
  // What ranks agree on besides what the call is prepared for.
  void add_to_mark();
  bool advance_call(const CallPlan& call_plan);
  bool call_done(const CallPlan& call_plan);
  // Of a call that goes by one hop and has begun.
  bool done_at_once();
  Status complete_call(const CallPlan& call_plan, uint64_t timeout_ns);
  Status complete_limited(const CallPlan& call_plan, uint64_t timeout_ns);
  Status complete_protocol(const CallPlan& call_plan, uint64_t timeout_ns);
  Status inspect_call(uint64_t now_ns);
  // Whether the call that runs cannot end before `peer` has entered it; false where that is not
  // sure.
  bool needs(int peer);
  // What ended it is `ended`, or something that a path has found.
  Status end_thrown_call(const CallPlan& call_plan, const Call& call);
  Status end_call(const CallPlan& call_plan, const Call& call, Status ended);
  tutti_status run(CallPlan& call_plan, const Call& call);
  tutti_status run_behind(const Call& call);
  tutti_status run_alone(const CallPlan& call_plan, const Call& call);
  void normalise_lone_vector(const CallPlan& call_plan, const Call& call) const;
  // 0 unless all ranks should have the same.
  uint32_t digest_of_result(const CallPlan& call_plan, const Call& call) const;
  tutti_status run_messages(std::span<const Message> messages, int64_t timeout_ms);
  // Every rank says `mine`, which is as long on all; what rank r said begins at (*all)[r].
  template <class Entry>
  Status tell_entries(const Entry& mine, std::vector<Entry>* all);
  tutti_status make_part(std::vector<int> members, std::unique_ptr<Communicator>* out);
  Status add_messages(std::span<const Message> messages, size_t* left);
  // `asked`: one of those that were on their way.
  void break_messages(const Message& asked, Status ended);

  // A call on the communicator by the calling thread.
  void enter() {
    const void* const thread = deadlock::this_thread();
    if (owner_.load(std::memory_order_relaxed) != thread) [[unlikely]]
      share(thread);
  }
  void share(const void* thread);
  bool rests_with(const void* thread, bool alone) const override;
  void post(Note note) override;

  // What is in flight (queue.cc); under the lock.
  in_flight::Moved advance_if_free() override;
  bool busy() const override { return in_flight_.load(std::memory_order_acquire) != 0; }
  bool begin_next();
  bool begin_operation(Operation& operation);
  bool advance_queue();
  void look_at_first();
  bool ran_dry() const;
  void end_first(Status ended);
  void retire(Operation* operation);
  Status inspect_queue(uint64_t now_ns);
  void look_into_queue(uint64_t now_ns);
  bool move_on();
  // What runs has failed: it all has.
  void break_queue(Status ended);
  void fail_all(const Status& why);
  // Or until nothing is in flight.
  template <class Done>
  void run_until(Done&& done, uint64_t timeout_ns);
  tutti_status conclude(Operation* operation);

  // A call has failed on its way: the communicator is over, for all.
  void break_down(Status status, const CallSignature& signature, uint64_t call);
  void break_down(Status status, const std::string& where, uint64_t call);
  void tell_peers(const Status& why) noexcept;
  tutti_status give_up(Status status, const CallSignature& signature, uint64_t call) {
    break_down(std::move(status), signature, call);
    return fail(broken_);
  }
  Status timed_out(int peer, uint64_t call) const noexcept;
  std::string describe_wait(int peer, uint64_t call) const;
  uint64_t timeout_ns(int64_t timeout_ms) const {
    return ns_of_ms(timeout_ms > 0 ? timeout_ms : settings_.timeout_ms);
  }

  static uint64_t next_serial();

  const uint64_t serial_ = next_serial();
  int rank_ = 0;
  int nranks_ = 1;
  CommSettings settings_;
  JobKey key_{};
  Capabilities capabilities_;
  Patience patience_;

  std::unique_ptr<Link> link_;        // null for one rank
  slots::SlotLink* slots_ = nullptr;  // link_, when it is one: the executor's fast form
  shared::Regions regions_{shared::Regions::Reach::none, nullptr};
  CallProtocols protocols_;

  std::atomic<uint64_t> epoch_{0};  // number of the last collective call
  // The thread that calls; null: none has yet, `this`: there were two.
  std::atomic<const void*> owner_{nullptr};
  // Calls met before, each in the place that its key hashes to; a newcomer takes the place.
  CallCache call_cache_;
  // Of the calls so far that a rank can end without having heard from all; part of later digests.
  uint64_t history_ = 0;
  CallMark mark_;                       // of the call that runs
  uint32_t last_result_ = 0;            // a digest of what the last one gave, if it is checked
  uint64_t slice_of_ = 0;               // elements of what the call is a slice of
  Limit* limit_ = nullptr;              // of the wait, for functions of the program's
  const CallPlan* waits_in_ = nullptr;  // what a thread waits for in complete_call()
  deadlock::CircleSearch circle_search_{this, [this](int peer) { return needs(peer); }};
  const Inspect inspect_ = [this](uint64_t now_ns) { return inspect_call(now_ns); };
  std::vector<std::byte> aside_, products_;
  struct Kept {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  std::array<Kept, compound_places> compound_memory_;
  std::vector<uint64_t> sends_, receives_;  // messages so far, by peer
  bool grouping_ = false;
  std::vector<Message> group_;
  Traffic traffic_;

  Lock lock_;  // of what is in flight; unnecessary for whoever sees that nothing is
  std::atomic<uint32_t> in_flight_{0};
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  uint64_t inspected_ns_ = 0;  // by test()
  bool listed_ = false;        // among those that whoever waits moves on
  std::shared_ptr<CommunicatorRef> self_ = std::make_shared<CommunicatorRef>(this);

  std::unique_ptr<DeviceCalls> device_;   // null: none
  std::unique_ptr<PinnedCopies> pinned_;  // of device_

  std::atomic<bool> over_{false};  // failed or aborted: no further call
  Status last_error_;
  Status broken_;  // why it is over
};

}  // namespace tutti
