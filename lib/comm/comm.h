// A communicator: the ranks that take part, the link between them, and the calls they make.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/call.h"
#include "lib/comm/select.h"
#include "lib/control/exchange.h"
#include "lib/plan/fused.h"
#include "lib/plan/pull.h"
#include "lib/plan/run.h"
#include "lib/reduce/reduce.h"
#include "lib/wait.h"

namespace tutti {

struct CommSettings {
  std::vector<std::string> transports = {"inproc", "shm", "tcp"};  // allowed, best first
  std::string interface;
  int64_t timeout_ms = 30'000;
  int64_t setup_ms = 60'000;
};

// One half of a point-to-point exchange.
struct Message {
  std::byte* buffer = nullptr;
  uint64_t count = 0;  // elements
  tutti_dtype dtype = TUTTI_INT8;
  int peer = 0;
  int tag = 0;
  bool sends = false;
};

// One thread at a time, except abort().
class Communicator {
 public:
  // Collective over the exchange.
  static Status create(std::unique_ptr<Exchange> exchange, const CommSettings& settings,
                       std::unique_ptr<Communicator>* out);
  ~Communicator();

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  const char* transport() const { return link_ ? link_->name() : "none"; }
  const CommSettings& settings() const { return settings_; }
  uint64_t calls() const { return epoch_; }
  uint64_t serial() const { return serial_; }  // no other communicator of the process has it
  // Calls so far that went directly from the ranks' memory to the ranks' memory.
  uint64_t direct_calls() const { return fused_ ? fused_->direct_calls() : 0; }
  // The last failure of a call, with its full sentence; OK if none failed.
  const Status& last_error() const { return last_error_; }

  // Runs a collective to its end.
  tutti_status run(const Call& call);
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
  bool in_group() const { return grouping_; }

  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Choice* out);

  // Memory that the other ranks reach directly where they can. The first two are collective.
  tutti_status mem_alloc(size_t bytes, void** out);
  tutti_status mem_register(void* address, size_t bytes, int fd, uint64_t offset);
  tutti_status mem_release(const void* address);

  // Collective. *out stays empty for color < 0.
  tutti_status split(int color, int key, std::unique_ptr<Communicator>* out);

  // Any thread; never blocks.
  void abort(std::string_view reason);

  // Keeps `status` as the last error and returns its code; for errors found before a call starts.
  tutti_status fail(Status status);

 private:
  struct CachedPlan;
  // Everything about a call that does not change from one to the next like it.
  struct Prepared {
    CallKey key;
    Choice choice;
    CallSignature signature;
    uint64_t signature_hash = 0;
    Kernels kernels;
    UserFunction function;  // what kernels.user points to
    bool premultiplies = false;
    alignas(16) std::array<std::byte, 16> scalar{};  // of a pre-multiplied sum
    uint32_t element_size = 1;
    CachedPlan* plan = nullptr;
  };

  Communicator();
  Status connect(Exchange& exchange);
  Status open_links(Exchange& exchange, std::vector<std::vector<uint8_t>>& peers, uint64_t comm_id,
                    uint64_t deadline_ns);
  // Finds or makes what is known about calls like this one; null, and the error is kept, if there
  // can be none.
  Prepared* find(const CallKey& key);
  Status prepare(const CallKey& key, std::unique_ptr<Prepared>* out);
  // Finds the kernels, or the program's function.
  Status bind_operator(Prepared& prepared) const;
  // A pre-multiplied sum: the call's input becomes its product with the scalar.
  Status scale_input(const Prepared& prepared, Call* call);
  Status plan_for(const Algorithm& algorithm, int root, bool scattered, CachedPlan** out);
  tutti_status run(Prepared& prepared, const Call& call);
  tutti_status run_alone(const Prepared& prepared, const Call& call);
  void normalise_lone_vector(const Prepared& prepared, const Call& call) const;
  Status run_fused(const Prepared& prepared, const CallMark& mark, const Call& asked);
  Status run_pull(const Prepared& prepared, const CallMark& mark, const Call& call);
  Status run_schedule(Prepared& prepared, const Call& call);
  // The ranks that know how long a block is agree on it.
  Status compare_lengths(const Prepared& prepared, const Call& call, uint64_t timeout_ns);
  Status run_plan(CachedPlan& cached, const Kernels& kernels, const std::byte* input,
                  std::byte* output, uint64_t timeout_ns);
  void bind(CachedPlan& cached, const Prepared& prepared, const Call& call);
  void average(const Prepared& prepared, const Call& call) const;
  tutti_status run_messages(std::span<const Message> messages, int64_t timeout_ms);
  // A call has failed in flight: the communicator is over, for all.
  tutti_status give_up(Status status, const CallSignature& signature, uint64_t call);
  std::string describe_wait(int peer, uint64_t call) const;
  uint64_t timeout_ns(int64_t timeout_ms) const {
    return uint64_t(timeout_ms > 0 ? timeout_ms : settings_.timeout_ms) * 1'000'000u;
  }

  static uint64_t next_serial();

  const uint64_t serial_ = next_serial();
  int rank_ = 0;
  int nranks_ = 1;
  CommSettings settings_;
  JobKey key_{};
  Setting setting_;
  Patience patience_;

  std::unique_ptr<Link> link_;      // null for one rank
  shm::SlotLink* slots_ = nullptr;  // link_, when it is one: the executor's fast form
  shm::Regions regions_{shm::Regions::Reach::none, nullptr};
  std::unique_ptr<plan::Fused> fused_;
  std::unique_ptr<plan::Pull> pull_;

  uint64_t epoch_ = 0;  // number of the last collective call
  // Calls met before, each in the place that its key hashes to; a newcomer takes the place.
  std::array<std::unique_ptr<Prepared>, 64> prepared_;
  CallMark unconfirmed_;  // the last call that may have ended without hearing from all
  std::vector<std::unique_ptr<CachedPlan>> plans_;
  plan::Run run_;
  plan::Extents extents_;  // of the last call of blocks
  std::vector<std::byte> scratch_, aside_, products_;
  std::vector<uint64_t> sends_, receives_;  // messages so far, by peer
  bool grouping_ = false;
  std::vector<Message> group_;

  std::atomic<bool> over_{false};  // failed or aborted: no further call
  Status last_error_;
  Status broken_;  // why it is over
};

}  // namespace tutti
