// The parts of a model that a rank of a pipeline computes: forward and backward of each micro-batch
// by themselves. What comes from other parts and goes to them is bytes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/data/data.h"
#include "trainer/models/replica.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/pipeline/partition.h"

namespace tutti::train {

// Runs a whole model, on all ranks that share its layers; `timed`: also how long each layer takes.
ModelFacts facts_of(Replica& whole, const Batch& batch, bool timed);

class Stage {
 public:
  struct Settings {
    bool recompute = false;  // keep only what came; compute forward again for backward
    bool split = false;      // backward leaves gradients of weights to weight()
  };
  // Keeps of the replica the layers of these parts, of all the model's parts. `ports`: all of the
  // model; tensors are known by the port's number, the micro-batch, and whether they are gradients.
  Stage(Replica& replica, const std::vector<LayerRange>& parts, const std::vector<int>& own,
        const std::vector<Port>& ports, const Settings& settings);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  struct Key {
    int port = 0, micro_batch = 0;
    bool gradient = false;
    auto operator<=>(const Key&) const = default;
  };
  // On the host, whatever the device: where what comes is to be written, before it is needed.
  std::span<std::byte> incoming(const Key& key, int64_t samples);
  // What has been made, until it is dropped.
  std::span<const std::byte> outgoing(const Key& key) const;
  void drop(const Key& key);

  // Chunks are the rank's own parts. `random` seeds dropout. The batch needs samples alone, except
  // for the first and the last part. Returns the sum of the losses on the last part, else 0.
  double forward(int chunk, int micro_batch, const Batch& batch, uint64_t random);
  // Makes gradients(chunk) that of scale * (sum of the losses) of the micro-batch, or leaves that
  // to weight().
  void backward(int chunk, int micro_batch, double scale);
  void weight(int chunk, int micro_batch);
  // Of the replica's type.
  template <class Real>
  std::span<Real> gradients(int chunk);
  // What of the chunk's vectors this rank counts in sums over the model.
  const std::vector<Range>& counted(int chunk) const;
  std::span<const std::byte> parameters(int chunk) const;

  // Forward where nothing is learnt or kept, as micro-batch 0. The loss on the last part.
  double evaluate(int chunk, const Batch& batch);
  // On the last part, after evaluate() of one sample: a byte drawn from what follows byte `place`.
  int64_t draw(int64_t place, uint64_t random);

  const Device& device() const;  // of gradients and parameters
  bool first(int chunk) const;
  bool last(int chunk) const;
  // Most bytes that forward has left for backward at once; on a GPU only what came.
  size_t peak_bytes() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tutti::train
