// What `--memory cuda` measures: calls on a stream of the GPU, over vectors in its memory; and what
// is measured beside them, to say what the GPU could do at all.
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
  // `symmetric`: memory that other ranks reach. Collective over the communicator then.
  GpuBuffers(const Gpu& gpu, tutti_comm comm, const Buffers& mirror, bool symmetric);
  ~GpuBuffers();
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  // The first `bytes` of both vectors, and the guard.
  void upload(size_t bytes) const;
  void download(size_t bytes) const;
  // The same call on them.
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

// The kernels and waits that no short call can do without, doing nothing: two waits for all ranks,
// whose flags are set, and a kernel behind each.
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

// Bytes read and written in a second by copies within the memory of rank 0's GPU, while all ranks
// wait; 1e9. Collective.
double measure_copy_GBs(const Rank& me, const Gpu& gpu);

// From the kernel with which rank 0 sets a flag of rank 1's to the one that waits for it, half of
// there and back; 0 for one rank. Where the two are processes on one GPU it changes contexts
// meanwhile. Collective.
double measure_hand_over_us(const Rank& me, const Gpu& gpu);

}  // namespace tutti::bench
