// The parts of a model that a rank of a pipeline computes: forward and backward of each micro-batch
// by themselves. Tensors from and to other parts are bytes for the pipeline, and each is known as a
// parcel. Only the files that compute include this.
#pragma once

#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "trainer/device/tensors.h"
#include "trainer/models/models.h"
#include "trainer/models/replica.h"
#include "trainer/pipeline/pipeline.h"

namespace tutti::train {

// Bytes that this process has allocated on the host; 0 on a GPU, as LibTorch's count is not used.
inline int64_t allocated(const Device& device) {
  if (device.is_gpu()) return 0;
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

inline std::span<int8_t> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<int8_t*>(tensor.data_ptr()), tensor.nbytes()};
}

inline torch::Tensor leaf_of(const torch::Tensor& tensor) {
  return tensor.detach().requires_grad_(tensor.is_floating_point());
}

class Stage {
  using Tensor = torch::Tensor;

 public:
  // Of this number. Keeps in the replica only the stage's layers.
  Stage(Replica& replica, const PipelinePlan& plan, int number, const Options& options)
      : replica_(replica),
        model_(replica.model()),
        ports_(plan.ports),
        number_(number),
        stages_(plan.shape.stages),
        recompute_(options.recompute),
        split_(options.schedule == "zb-h1") {
    std::vector<Range> kept;
    for (int c = 0; c < plan.shape.chunks; ++c) {
      const int part = plan.shape.part(number, c);
      Chunk& chunk = chunks_.emplace_back();
      chunk.layers = kept.emplace_back(plan.parts[size_t(part)]);
      for (size_t p = 0; p < ports_.size(); ++p) {
        if (ports_[p].to == part) chunk.in.push_back(int(p));
        if (ports_[p].from == part) chunk.out.push_back(int(p));
      }
    }
    replica.keep(kept);
    for (Chunk& chunk : chunks_)
      for (size_t i = chunk.layers.begin; i < chunk.layers.end; ++i) {
        for (const Tensor& p : model_.layers[i]->parameters()) chunk.parameters.push_back(p);
        for (const Parameter& p : replica.layout()) {
          if (!p.name.starts_with(model_.layers[i]->name + ".")) continue;
          const bool first = chunk.place.size() == 0;
          chunk.place.begin = first ? p.offset : std::min(chunk.place.begin, p.offset);
          chunk.place.end = std::max(chunk.place.end, p.offset + p.count);
        }
      }
  }

  // On the host, whatever the device: where to write a received tensor before it is needed.
  std::span<int8_t> incoming(const Parcel& key, int64_t samples) {
    const Port& port = ports_[size_t(key.port)];
    std::vector<int64_t> sizes = port.sizes;
    if (!port.weight()) sizes.front() = samples;
    const auto options = torch::dtype(model_.type).pinned_memory(model_.device.is_cuda());
    return bytes_of(came_[key] = torch::empty(sizes, options));
  }
  // A tensor to be sent, until it is dropped.
  std::span<const int8_t> outgoing(const Parcel& key) const { return bytes_of(made_.at(key)); }
  void drop(const Parcel& key) { made_.erase(key); }

  // Chunks are the rank's own parts. `random` seeds dropout. The batch needs only its number of
  // samples, except for the first and the last part. Returns the sum of the losses on the last
  // part, else 0.
  double forward(int number, int micro_batch, const Batch& batch, uint64_t random) {
    Chunk& chunk = chunks_[size_t(number)];
    Live& live = chunk.live[micro_batch];
    model_.train();
    const int64_t before = allocated(device());
    live.batch = batch;
    live.random = random;
    const double loss = pass(chunk, live, micro_batch, !recompute_);
    if (recompute_) {
      live.outputs.clear();
      live.loss = Tensor();
    }
    live.bytes = allocated(device()) - before;  // and what was received before:
    for (const Tensor& leaf : live.leaves) live.bytes += int64_t(leaf.nbytes());
    bytes_ += live.bytes;
    device().wait();
    peak_ = std::max(peak_, bytes_);
    return loss;
  }

  // Sets gradients(number) to those of scale * (sum of the micro-batch's losses), or leaves that to
  // weight().
  void backward(int number, int micro_batch, double scale) {
    Chunk& chunk = chunks_[size_t(number)];
    Live& live = chunk.live.at(micro_batch);
    if (recompute_) run(chunk, live);
    std::vector<Tensor> roots, above;
    for (size_t i = 0; i < chunk.out.size(); ++i) {
      roots.push_back(live.outputs[i]);
      above.push_back(take({micro_batch, chunk.out[i], true}));
    }
    if (last(number)) {
      roots.push_back(live.loss * (scale * replica_.loss_scale()));
      above.push_back(torch::ones_like(live.loss));
    }
    std::vector<Tensor> wanted = live.leaves;
    wanted.insert(wanted.end(), chunk.parameters.begin(), chunk.parameters.end());
    std::unique_ptr<Deferred> deferred;
    if (split_) deferred = std::make_unique<Deferred>();
    std::vector<Tensor> found =
        torch::autograd::grad(roots, wanted, above, c10::nullopt, false, true);
    for (size_t i = 0; i < chunk.in.size(); ++i)
      hand_over({micro_batch, chunk.in[i], true},
                found[i].defined() ? found[i] : torch::zeros_like(live.leaves[i]));
    device().wait();
    found.erase(found.begin(), found.begin() + std::ptrdiff_t(live.leaves.size()));
    if (split_) {
      live.early = std::move(found);
      live.later = std::move(deferred->work);
      live.outputs.clear();
      live.loss = Tensor();
      return;
    }
    add(chunk, found);
    retire(chunk, micro_batch);
  }

  void weight(int number, int micro_batch) {
    Chunk& chunk = chunks_[size_t(number)];
    const Live& live = chunk.live.at(micro_batch);
    add(chunk, live.early);
    for (const Deferred::Work& work : live.later) work();
    device().wait();
    retire(chunk, micro_batch);
  }

  // Forward for evaluation, as micro-batch 0: nothing is kept for backward. Returns the loss on the
  // last part.
  double evaluate(int number, const Batch& batch) {
    model_.eval();
    Live live;
    live.batch = batch;
    return pass(chunks_[size_t(number)], live, 0, false);
  }
  // On the last part, after evaluate() of one sample: one of the first `tokens` tokens, drawn from
  // what follows the one at `place`.
  int64_t draw(int64_t place, size_t tokens, uint64_t random) {
    const torch::NoGradGuard fixed;
    return drawn(model_.whole(logits_)[0][place], tokens, random);
  }

  // Whether the chunk is the model's first part, or its last one.
  bool first(int chunk) const { return chunks_[size_t(chunk)].layers.begin == 0; }
  bool last(int chunk) const { return chunks_[size_t(chunk)].layers.end == model_.layers.size(); }
  // The most bytes held for backward at one time; on a GPU only the received tensors.
  size_t peak_bytes() const { return size_t(peak_); }
  // Where the chunk lies in the replica's vectors.
  Range place(int chunk) const { return chunks_[size_t(chunk)].place; }
  const Device& device() const { return replica_.device(); }
  const Layout& layout() const { return replica_.layout(); }
  template <class Real>
  std::span<Real> gradients(int chunk) {
    return slice(replica_.gradients<Real>(), place(chunk));
  }
  std::span<const std::byte> parameters(int chunk) {
    const Range own = place(chunk);
    return slice(replica_.bytes(), {replica_.width() * own.begin, replica_.width() * own.end});
  }

 private:
  // A micro-batch between its forward and its last gradient.
  struct Live {
    Batch batch;
    uint64_t random = 0;
    std::vector<Tensor> leaves;   // of the ports in
    std::vector<Tensor> outputs;  // of the ports out
    Tensor loss;
    int64_t bytes = 0;
    // For weight(): gradients that are already computed, and those that are still to be computed.
    std::vector<Tensor> early;
    std::vector<Deferred::Work> later;
  };

  struct Chunk {
    Range layers;
    std::vector<int> in, out;  // ports
    std::vector<Tensor> parameters;
    std::map<int, Live> live;  // by micro-batch
    Range place;               // in the replica's vectors
  };

  Tensor take(const Parcel& key) {
    const auto found = came_.extract(key);
    if (found.empty()) throw std::logic_error("a part runs before what it needs has come");
    return found.mapped().to(model_.device);
  }

  // Hands the tensor to a part of this rank, or keeps it to be sent.
  void hand_over(const Parcel& key, const Tensor& tensor) {
    const Port& port = ports_[size_t(key.port)];
    const int to = key.gradient ? port.from : port.to;
    const Tensor whole = tensor.detach().contiguous();
    if (to % stages_ == number_)
      came_[key] = whole;
    else
      made_[key] = whole.to(torch::kCPU);
  }
  // Forward: takes what comes into the chunk and hands over what leaves it. Returns the loss of the
  // last part, else 0.
  double pass(const Chunk& chunk, Live& live, int micro_batch, bool graph) {
    live.leaves = leaves(chunk, micro_batch);
    const torch::AutoGradMode with(graph);
    run(chunk, live);
    for (size_t i = 0; i < chunk.out.size(); ++i)
      if (ports_[size_t(chunk.out[i])].sent_with(micro_batch))
        hand_over({micro_batch, chunk.out[i], false}, live.outputs[i]);
    return live.loss.defined() ? live.loss.item<double>() : 0;
  }

  // The tensors that come into the chunk.
  std::vector<Tensor> leaves(const Chunk& chunk, int micro_batch) {
    std::vector<Tensor> all;
    for (const int p : chunk.in) {
      const Parcel key{micro_batch, p, false};
      if (!ports_[size_t(p)].weight()) {
        all.push_back(leaf_of(take(key)));
        continue;
      }
      if (came_.count(key)) weights_[p] = take(key);
      all.push_back(leaf_of(weights_.at(p)));
    }
    return all;
  }

  void run(const Chunk& chunk, Live& live) {
    Stash stash;
    Tensor x;
    for (size_t i = 0; i < chunk.in.size(); ++i) {
      const Port& port = ports_[size_t(chunk.in[i])];
      if (port.name.empty())
        x = live.leaves[i];
      else
        stash.put(port.name, live.leaves[i]);
    }
    if (chunk.layers.begin == 0) x = model_.input(live.batch);
    x = replica_.model().run(chunk.layers.begin, chunk.layers.end, x, stash, live.random);
    live.outputs.clear();
    for (const int p : chunk.out) {
      const Port& port = ports_[size_t(p)];
      live.outputs.push_back(port.name.empty() ? x : stash.take(port.name));
    }
    if (!stash.held().empty())
      throw std::logic_error("no layer takes " + stash.held().begin()->first + " out of the stash");
    if (chunk.layers.end == model_.layers.size()) {
      logits_ = x.detach();
      live.loss = model_.loss(x, live.batch);
    }
  }

  void add(const Chunk& chunk, const std::vector<Tensor>& gradients) {
    for (const Tensor& p : chunk.parameters) p.mutable_grad().zero_();
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) chunk.parameters[i].mutable_grad().add_(gradients[i]);
  }
  // After its last gradient.
  void retire(Chunk& chunk, int micro_batch) {
    replica_.unscale(chunk.place);
    bytes_ -= chunk.live.at(micro_batch).bytes;
    chunk.live.erase(micro_batch);
  }

  Replica& replica_;
  Model& model_;
  std::vector<Port> ports_;
  const int number_, stages_;
  const bool recompute_;  // keep only the received tensors; compute forward again in backward
  const bool split_;      // backward leaves gradients of weights to weight()
  std::vector<Chunk> chunks_;
  std::map<Parcel, Tensor> came_, made_;
  std::map<int, Tensor> weights_;  // by port: received with one of the first micro-batches
  Tensor logits_;
  int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace tutti::train
