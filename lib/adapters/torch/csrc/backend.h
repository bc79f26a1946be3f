// The compiled form: a backend of torch.distributed over a communicator of tutti.
#pragma once

#include <ATen/core/ivalue.h>  // Clang finds it incomplete after the others of 1.13

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "adoption.h"
#include "work.h"

namespace tutti_torch {

// Up to 1.13 a backend was a process group.
#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

// Whether this torch has its backends make the groups of split_group(), by Backend::split().
template <class B, class = void>
struct LetsBackendsSplit : std::false_type {};
template <class B>
struct LetsBackendsSplit<
    B, std::void_t<decltype(static_cast<c10::intrusive_ptr<B> (B::*)(
                                const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>&,
                                const c10::intrusive_ptr<typename B::Options>&)>(&B::split))>>
    : std::true_type {};

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using TensorLists = std::vector<Tensors>;

// Tensors may be of any layout and type; all are on the processor (else an error). Every collective
// is issued by one thread at a time, in the same order on all ranks, and returns at once.
class Backend final : public Base {
 public:
  // Takes the two communicators of the same ranks: one for collectives, one for messages.
  // `timeout`: of each call that does not say its own.
  Backend(tutti_comm collectives, tutti_comm messages, int rank, int size, Milliseconds timeout);
  // Ends what is in flight; from a callback of its own or the like, in a thread of its own.
  ~Backend() override;

  const std::string getBackendName() const override { return "tutti"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // What the group has issued so far; equal on all ranks, as they issue the same.
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setSequenceNumberForGroup() override {}

  // Virtual from some 2.x on; hence without `override`.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts);
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts);
  void startCoalescing();
  WorkPtr endCoalescing();
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  bool supportsCoalescing() const { return true; }
  bool supportsSplitting() const { return LetsBackendsSplit<Base>::value; }
  // A group of these ranks, in this order. NULL on a rank that is not among them.
  c10::intrusive_ptr<Base> split(const c10::intrusive_ptr<c10d::Store>& store,
                                 const std::vector<int>& ranks,
                                 const c10::intrusive_ptr<Base::Options>& opts);
  void setTimeout(Milliseconds timeout) { timeout_ = timeout; }
  c10::intrusive_ptr<Base::Options> getBackendOptions();
  // From any thread: all calls end with an error, here and on the other ranks.
  void abort();
  // Waits for what is in flight.
  void shutdown();

 private:
  // What it has until it is closed, which may be after the program has dropped it.
  class State {
   public:
    State(tutti_comm collectives_comm, tutti_comm messages_comm);
    // Whether this thread is in something that the queue or the messages run.
    bool runs_here();
    // Waits for collectives that are in flight, and ends what else is.
    void close();
    // From any thread, also while another one closes it.
    void abort(const char* why);

    std::unique_ptr<Adoption> adoption;  // of the collectives, for calls that are run
    const std::shared_ptr<Messages> messages;
    const std::shared_ptr<CallQueue> queue;

   private:
    const tutti_comm collectives_comm_;
    const tutti_comm messages_comm_;
    std::mutex freeing_;  // held to use a communicator beside the calls
    bool freed_ = false;
  };

  // Runs `run` when its turn comes.
  WorkPtr issue(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs,
                Milliseconds timeout, std::function<void(const tutti_call_config*)> run);
  // `places`: on the root one for each rank, or one for all.
  WorkPtr issue_gather(Tensors places, const at::Tensor& input, int root, Milliseconds timeout);
  WorkPtr issue_message(bool send, Tensors& tensors, int peer, int tag);
  WorkPtr issued(WorkPtr work);

  const tutti_comm collectives_;
  Milliseconds timeout_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<std::thread::id> coalescer_{};  // the thread that collects its own works
  std::vector<WorkPtr> coalesced_;            // which only that one has
  const std::shared_ptr<State> state_;
  std::atomic<bool> open_{true};
};

}  // namespace tutti_torch
