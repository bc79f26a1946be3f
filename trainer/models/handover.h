// Models whose layers are on different ranks, which pass tensors on: every layer is on one rank,
// and the last rank has the loss.
#pragma once

#include <utility>
#include <vector>

#include "trainer/models/models.h"

namespace tutti::train {

// What a rank's layers get from the rank before and hand to the next one, piece by piece.
class Handover {
 public:
  // `parameter`: one of the rank's.
  Handover(const Group& ranks, const torch::Tensor& parameter)
      : ranks_(ranks),
        before_(torch::zeros({}, parameter.options()).set_requires_grad(true)),
        zero_(torch::zeros({}, parameter.options())) {}
  torch::Tensor get(std::vector<int64_t> shape) const {
    return receive(before_, std::move(shape), ranks_.rank - 1, ranks_);
  }
  void put(const torch::Tensor& x) { zero_ = zero_ + send(x, ranks_.rank + 1, ranks_); }
  // In place of the logits, which the last rank has: their backward gets the gradients of all that
  // was put.
  torch::Tensor zeros(const std::vector<int64_t>& shape) const { return zero_.expand(shape); }

 private:
  const Group& ranks_;
  torch::Tensor before_, zero_;
};

// On the last rank the last layer returns the logits. On the others it returns zeros of that shape,
// whose backward receives the gradients of all that the rank has sent.
class HandoverModel : public TextModel, public Divided {
 public:
  HandoverModel(int64_t classes, const Group& ranks) : TextModel(classes, alone_), ranks_(ranks) {}
  torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const override {
    if (ranks_.size == 1) return last_loss(output, batch);
    const bool last = ranks_.rank + 1 == ranks_.size;
    const torch::Tensor own = last ? last_loss(output, batch) : output.flatten()[0];
    const torch::Tensor all = sum_of(own, ranks_);
    return last ? own : own + all;
  }
  torch::Tensor whole(const torch::Tensor& output) const override { return sum_of(output, ranks_); }

 protected:
  // Of the last rank's logits.
  virtual torch::Tensor last_loss(const torch::Tensor& output, const Batch& batch) const {
    return TextModel::loss(output, batch);
  }
  // Registers a layer that this rank has.
  template <class L>
  std::shared_ptr<L> hold(const std::string& name, std::shared_ptr<L> layer) {
    append(name, layer);
    if (ranks_.size > 1) keep_alone(name, *layer);
    return layer;
  }

 private:
  static inline const Group alone_;
  const Group& ranks_;
};

}  // namespace tutti::train
