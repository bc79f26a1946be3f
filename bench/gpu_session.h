// The additional parts of a session with vectors on GPUs.
#pragma once

#include <memory>

#include "bench/gpu_subjects.h"
#include "bench/options.h"

namespace tutti::bench {

class GpuSession {
 public:
  // Collective: measures the GPU's limits.
  GpuSession(const Options& options, const Rank& me);

  // A communicator whose calls accept memory of this rank's GPU.
  Comm open() const;
  // Collective. The result must not outlive the arguments.
  std::unique_ptr<GpuBuffers> buffers(tutti_comm comm, const Buffers& mirror) const;
  std::unique_ptr<CollectiveSubject> subject(tutti_comm comm, const std::string& algorithm,
                                             CallShape shape, const std::vector<Span>& spans,
                                             const Buffers& mirror,
                                             const GpuBuffers& buffers) const;
  Subject& empty() const { return *empty_; }

  // Fills in all but the time to enqueue. `count`: elements of a vector, or of a block.
  void describe(size_t count, size_t element, double empty_us, Result* result) const;

 private:
  double limit_us(size_t count, size_t element) const;

  const Options& options_;
  const Rank& me_;
  int gpus_;
  Gpu gpu_;
  std::unique_ptr<EmptySubject> empty_;
  double copy_GBs_ = 0, hand_over_us_ = 0;
};

}  // namespace tutti::bench
