// The parts of a model that a rank of a pipeline computes: forward and backward of each micro-batch
// by themselves. Tensors from and to other parts are bytes in this interface.
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

// Runs a whole model, on all ranks that divide its layers; `timed`: also measures the time of each
// layer.
ModelFacts facts_of(Replica& whole, const Batch& batch, bool timed);

class Stage {
 public:
  struct Settings {
    bool recompute = false;  // keep only the received tensors; compute forward again in backward
    bool split = false;      // backward leaves gradients of weights to weight()
  };
  // Keeps in the replica only the layers of the parts `own`. `parts` and `ports`: all of the
  // model's. A tensor is identified by its port's number, its micro-batch, and whether it is a
  // gradient.
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
  // On the host, whatever the device: where to write a received tensor before it is needed.
  std::span<std::byte> incoming(const Key& key, int64_t samples);
  // A tensor to be sent, until it is dropped.
  std::span<const std::byte> outgoing(const Key& key) const;
  void drop(const Key& key);

  // Chunks are the rank's own parts. `random` seeds dropout. The batch needs only its number of
  // samples, except for the first and the last part. Returns the sum of the losses on the last
  // part, else 0.
  double forward(int chunk, int micro_batch, const Batch& batch, uint64_t random);
  // Sets gradients(chunk) to those of scale * (sum of the micro-batch's losses), or leaves that to
  // weight().
  void backward(int chunk, int micro_batch, double scale);
  void weight(int chunk, int micro_batch);
  // `Real`: the replica's element type.
  template <class Real>
  std::span<Real> gradients(int chunk);
  // The ranges of the chunk's vectors that this rank counts in sums over the model.
  const std::vector<Range>& counted(int chunk) const;
  std::span<const std::byte> parameters(int chunk) const;

  // Forward for evaluation, as micro-batch 0: nothing is kept for backward. Returns the loss on the
  // last part.
  double evaluate(int chunk, const Batch& batch);
  // On the last part, after evaluate() of one sample: a byte drawn from what follows byte `place`.
  int64_t draw(int64_t place, uint64_t random);

  const Device& device() const;  // of gradients and parameters
  bool first(int chunk) const;
  bool last(int chunk) const;
  // The most bytes held for backward at one time; on a GPU only the received tensors.
  size_t peak_bytes() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tutti::train
