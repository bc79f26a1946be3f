// What `--memory cuda` measures: calls on a stream of the GPU, over vectors in its memory; and the
// GPU's limits, which are measured beside them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu.h"
#include "bench/subjects.h"

namespace tutti::bench {

// The vectors of one rank on its GPU, of the lengths of `mirror`, in which inputs are made and
// outputs checked.
class GpuBuffers {
 public:
  // `symmetric`: memory that other ranks can access. Collective over the communicator then.
  GpuBuffers(const Gpu& gpu, tutti_comm comm, const Buffers& mirror, bool symmetric);
  ~GpuBuffers();
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  // The first `bytes` of both vectors, and the guard.
  void upload(size_t bytes) const;
  void download(size_t bytes) const;
  // The same call on the GPU's vectors.
  Call there(Call call) const;

 private:
  void* make(size_t bytes);
  void copy(size_t at, size_t bytes, bool up) const;

  const Gpu& gpu_;
  tutti_comm comm_;
  const Buffers& mirror_;
  bool symmetric_;
  void* send_ = nullptr;
  void* recv_ = nullptr;
};

class GpuSubject : public CollectiveSubject {
 public:
  // `collective` must have a form on streams; one span.
  GpuSubject(const Collective& collective, const Rank& me, tutti_comm comm, std::string algorithm,
             const CallShape& shape, const std::vector<Span>& spans, const Buffers& mirror,
             const GpuBuffers& buffers, const Gpu& gpu, bool graph);
  bool explain(tutti_explanation* explanation) override;
  // What the library explains is of memory of the host.
  bool explain_again(tutti_explanation*) override { return false; }
  void run(size_t calls) override;
  void describe(Result* result) const override;

 protected:
  void check_call(const Call& c) override;

 private:
  void enqueue() const;
  void finish() const;

  const Gpu& gpu_;
  const GpuBuffers& buffers_;
  Call call_;
  size_t bytes_;  // of the longer buffer
  Batches batches_;
};

// The least kernels and waits of a short call, without work: two waits for flags of all ranks,
// which are set already, and an empty kernel after each.
class EmptySubject : public Subject {
 public:
  EmptySubject(const Gpu& gpu, int nranks, bool graph);
  void run(size_t calls) override { batches_.run(calls); }

 private:
  void enqueue() const;

  const Gpu& gpu_;
  GpuMemory board_;
  device::Kernel kernel_ = nullptr;
  std::vector<device::Address> flags_;
  std::unique_ptr<device::Common> common_;
  Batches batches_;
};

// Rate of copies within the memory of rank 0's GPU, bytes read and written, 1e9 per second. The
// other ranks wait. Collective.
double measure_copy_GBs(const Rank& me, const Gpu& gpu);

// Time from the kernel with which rank 0 sets a flag of rank 1 to the kernel that waits for it:
// half a round trip; 0 for one rank. Two processes on one GPU include its context switch.
// Collective.
double measure_hand_over_us(const Rank& me, const Gpu& gpu);

}  // namespace tutti::bench
