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
  explicit Stage(Replica& replica) : replica_(replica) {}
  virtual ~Stage() = default;

  // A tensor is identified by its port's number, its micro-batch, and whether it is a gradient.
  struct Key {
    int port = 0, micro_batch = 0;
    bool gradient = false;
    auto operator<=>(const Key&) const = default;
  };
  // On the host, whatever the device: where to write a received tensor before it is needed.
  virtual std::span<std::byte> incoming(const Key& key, int64_t samples) = 0;
  // A tensor to be sent, until it is dropped.
  virtual std::span<const std::byte> outgoing(const Key& key) const = 0;
  virtual void drop(const Key& key) = 0;

  // Chunks are the rank's own parts. `random` seeds dropout. The batch needs only its number of
  // samples, except for the first and the last part. Returns the sum of the losses on the last
  // part, else 0.
  virtual double forward(int chunk, int micro_batch, const Batch& batch, uint64_t random) = 0;
  // Sets gradients(chunk) to those of scale * (sum of the micro-batch's losses), or leaves that to
  // weight().
  virtual void backward(int chunk, int micro_batch, double scale) = 0;
  virtual void weight(int chunk, int micro_batch) = 0;

  // Forward for evaluation, as micro-batch 0: nothing is kept for backward. Returns the loss on the
  // last part.
  virtual double evaluate(int chunk, const Batch& batch) = 0;
  // On the last part, after evaluate() of one sample: one of the first `tokens` tokens, drawn from
  // what follows the one at `place`.
  virtual int64_t draw(int64_t place, size_t tokens, uint64_t random) = 0;

  // Whether the chunk is the model's first part, or its last one.
  virtual bool first(int chunk) const = 0;
  virtual bool last(int chunk) const = 0;
  // The most bytes held for backward at one time; on a GPU only the received tensors.
  virtual size_t peak_bytes() const = 0;

  // Where the chunk lies in the replica's vectors.
  virtual Range place(int chunk) const = 0;
  const Device& device() const { return replica_.device(); }
  const Layout& layout() const { return replica_.layout(); }
  template <class Real>
  std::span<Real> gradients(int chunk) {
    return slice(replica_.gradients<Real>(), place(chunk));
  }
  std::span<const std::byte> parameters(int chunk) const {
    const Range own = place(chunk);
    return slice(replica_.bytes(), {replica_.width() * own.begin, replica_.width() * own.end});
  }

 protected:
  Replica& replica_;
};

// Keeps in the replica only the layers of the parts `own`. `parts` and `ports`: all of the model's.
std::unique_ptr<Stage> make_stage(Replica& replica, const std::vector<Range>& parts,
                                  const std::vector<int>& own, const std::vector<Port>& ports,
                                  const Stage::Settings& settings);

}  // namespace tutti::train
