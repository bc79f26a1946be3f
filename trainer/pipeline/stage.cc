#include "trainer/pipeline/stage.h"

#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "trainer/common/timeline.h"
#include "trainer/device/tensors.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// Bytes that this process has allocated on the host; 0 on a GPU, as LibTorch's count is not used.
int64_t allocated(const Device& device) {
  if (device.is_gpu()) return 0;
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Tensor leaf_of(const Tensor& tensor) {
  return tensor.detach().requires_grad_(tensor.is_floating_point());
}

// Whether the tensor is a parameter: of a parameter the stash holds a view.
bool is_weight(const Tensor& tensor) {
  return tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
}

// Runs one layer on its predecessors' outputs, detached from their graphs.
Tensor run_alone(Model& model, size_t layer, const Tensor& x, std::map<std::string, Tensor>& held,
                 ModelFacts& facts) {
  Stash stash;
  for (const auto& [name, tensor] : held) stash.put(name, tensor);
  const Tensor y = model.run(layer, layer + 1, x, stash, 0);
  std::map<std::string, Tensor> after;
  for (const auto& [name, tensor] : stash.held())
    after.emplace(name, held.count(name) ? held[name] : leaf_of(tensor));
  for (const auto& [name, tensor] : stash.held())
    if (!held.count(name))
      facts.skips.push_back({name, layer, layer, tensor.sizes().vec(), is_weight(tensor)});
  for (const auto& [name, tensor] : held)
    if (!after.count(name))
      for (ModelFacts::Skip& skip : facts.skips)
        if (skip.name == name) skip.to = layer;
  held = std::move(after);
  return y;
}

}  // namespace

ModelFacts facts_of(Replica& whole, const Batch& batch, bool timed) {
  Model& model = whole.model();
  model.train();
  ModelFacts facts;
  for (int round = 0; round < (timed ? 3 : 1); ++round) {
    const std::vector<ModelFacts::Layer> before = std::move(facts.layers);
    facts = {};
    std::map<std::string, Tensor> held;
    Tensor x = model.input(batch);
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const double from = now();
      Tensor y = run_alone(model, i, x, held, facts);
      if (i + 1 == model.layers.size()) {
        const Tensor loss = model.loss(y, batch);
        if (timed) loss.backward();
      } else if (timed) {
        y.backward(torch::ones_like(y));
      }
      whole.device().wait();
      double seconds = timed ? now() - from : 0;
      if (!before.empty())
        seconds = std::min(seconds, before[i].seconds);  // the first one warms up
      facts.layers.push_back({model.layers[i]->name, y.sizes().vec(), seconds});
      x = leaf_of(y);
    }
    if (!held.empty())
      throw std::logic_error("no layer takes " + held.begin()->first + " out of the stash");
  }
  for (const Tensor& p : model.parameters()) p.mutable_grad().zero_();
  return facts;
}

// ---------------------------------------------------------------- a rank's parts

namespace {

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

class RankStage : public Stage {
 public:
  RankStage(Replica& replica, const std::vector<Range>& parts, const std::vector<int>& own,
            const std::vector<Port>& ports, const Settings& settings)
      : Stage(replica), model_(replica.model()), ports_(ports), settings_(settings) {
    std::vector<Range> kept;
    for (const int part : own) kept.push_back(parts[size_t(part)]);
    replica.keep(kept);
    std::map<std::string, size_t> offsets;
    for (const Parameter& p : replica.layout()) offsets[p.name] = p.offset;
    for (const int part : own) {
      chunk_of_[part] = chunks_.size();
      Chunk& chunk = chunks_.emplace_back();
      chunk.layers = parts[size_t(part)];
      for (size_t p = 0; p < ports.size(); ++p) {
        if (ports[p].connection.to == part) chunk.in.push_back(int(p));
        if (ports[p].connection.from == part) chunk.out.push_back(int(p));
      }
      chunk.place = {replica.size(), 0};
      for (size_t i = chunk.layers.begin; i < chunk.layers.end; ++i)
        for (const auto& p : model_.layers[i]->named_parameters()) {
          chunk.parameters.push_back(p.value());
          const size_t at = offsets.at(model_.layers[i]->name + "." + p.key());
          chunk.place.begin = std::min(chunk.place.begin, at);
          chunk.place.end = std::max(chunk.place.end, at + size_t(p.value().numel()));
        }
      if (chunk.parameters.empty()) chunk.place = {};
    }
  }

  std::span<std::byte> incoming(const Key& key, int64_t samples) override {
    const Port& port = ports_[size_t(key.port)];
    std::vector<int64_t> sizes = port.sizes;
    if (!port.weight) sizes.front() = samples;
    const auto options = torch::dtype(model_.type).pinned_memory(model_.device.is_cuda());
    return bytes_of(came_[key] = torch::empty(sizes, options));
  }
  std::span<const std::byte> outgoing(const Key& key) const override {
    return bytes_of(made_.at(key));
  }
  void drop(const Key& key) override { made_.erase(key); }

  double forward(int number, int micro_batch, const Batch& batch, uint64_t random) override {
    Chunk& chunk = chunks_[size_t(number)];
    Live& live = chunk.live[micro_batch];
    model_.train();
    const int64_t before = allocated(device());
    live.batch = batch;
    live.random = random;
    live.leaves = leaves(chunk, micro_batch);
    {
      const torch::AutoGradMode graph(!settings_.recompute);
      run(chunk, live);
    }
    hand_over_outputs(chunk, live, micro_batch);
    const double loss = live.loss.defined() ? live.loss.item<double>() : 0;
    if (settings_.recompute) {
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

  void backward(int number, int micro_batch, double scale) override {
    Chunk& chunk = chunks_[size_t(number)];
    Live& live = chunk.live.at(micro_batch);
    if (settings_.recompute) run(chunk, live);
    std::vector<Tensor> roots, above;
    for (size_t i = 0; i < chunk.out.size(); ++i) {
      roots.push_back(live.outputs[i]);
      above.push_back(take({chunk.out[i], micro_batch, true}));
    }
    if (last(number)) {
      roots.push_back(live.loss * (scale * replica_.loss_scale()));
      above.push_back(torch::ones_like(live.loss));
    }
    std::vector<Tensor> wanted = live.leaves;
    wanted.insert(wanted.end(), chunk.parameters.begin(), chunk.parameters.end());
    std::unique_ptr<Deferred> deferred;
    if (settings_.split) deferred = std::make_unique<Deferred>();
    std::vector<Tensor> found =
        torch::autograd::grad(roots, wanted, above, c10::nullopt, false, true);
    for (size_t i = 0; i < chunk.in.size(); ++i)
      hand_over({chunk.in[i], micro_batch, true},
                found[i].defined() ? found[i] : torch::zeros_like(live.leaves[i]));
    device().wait();
    found.erase(found.begin(), found.begin() + std::ptrdiff_t(live.leaves.size()));
    if (settings_.split) {
      live.early = std::move(found);
      live.later = std::move(deferred->work);
      live.outputs.clear();
      live.loss = Tensor();
      return;
    }
    add(chunk, found);
    retire(chunk, micro_batch);
  }

  void weight(int number, int micro_batch) override {
    Chunk& chunk = chunks_[size_t(number)];
    const Live& live = chunk.live.at(micro_batch);
    add(chunk, live.early);
    for (const Deferred::Work& work : live.later) work();
    device().wait();
    retire(chunk, micro_batch);
  }

  double evaluate(int number, const Batch& batch) override {
    const Chunk& chunk = chunks_[size_t(number)];
    const torch::NoGradGuard fixed;
    model_.eval();
    Live live;
    live.batch = batch;
    live.leaves = leaves(chunk, 0);
    run(chunk, live);
    hand_over_outputs(chunk, live, 0);
    return live.loss.defined() ? live.loss.item<double>() : 0;
  }
  int64_t draw(int64_t place, size_t tokens, uint64_t random) override {
    const torch::NoGradGuard fixed;
    return drawn(model_.whole(logits_)[0][place], tokens, random);
  }

  bool first(int chunk) const override { return chunks_[size_t(chunk)].layers.begin == 0; }
  bool last(int chunk) const override {
    return chunks_[size_t(chunk)].layers.end == model_.layers.size();
  }
  size_t peak_bytes() const override { return size_t(peak_); }
  Range place(int chunk) const override { return chunks_[size_t(chunk)].place; }

 private:
  Tensor take(const Key& key) {
    const auto found = came_.extract(key);
    if (found.empty()) throw std::logic_error("a part runs before what it needs has come");
    return found.mapped().to(model_.device);
  }

  // Hands the tensor to a part of this rank, or keeps it to be sent.
  void hand_over(const Key& key, const Tensor& tensor) {
    const Port& port = ports_[size_t(key.port)];
    const int to = key.gradient ? port.connection.from : port.connection.to;
    const Tensor whole = tensor.detach().contiguous();
    if (chunk_of_.count(to))
      came_[key] = whole;
    else
      made_[key] = whole.to(torch::kCPU);
  }
  void hand_over_outputs(const Chunk& chunk, const Live& live, int micro_batch) {
    for (size_t i = 0; i < chunk.out.size(); ++i)
      if (ports_[size_t(chunk.out[i])].connection.sent_with(micro_batch))
        hand_over({chunk.out[i], micro_batch, false}, live.outputs[i]);
  }

  // The tensors that come into the chunk.
  std::vector<Tensor> leaves(const Chunk& chunk, int micro_batch) {
    std::vector<Tensor> all;
    for (const int p : chunk.in) {
      const Key key{p, micro_batch, false};
      if (!ports_[size_t(p)].weight) {
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

  Model& model_;
  std::vector<Port> ports_;
  Settings settings_;
  std::vector<Chunk> chunks_;
  std::map<int, size_t> chunk_of_;  // a part
  std::map<Key, Tensor> came_, made_;
  std::map<int, Tensor> weights_;  // by port: received with one of the first micro-batches
  Tensor logits_;
  int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace

std::unique_ptr<Stage> make_stage(Replica& replica, const std::vector<Range>& parts,
                                  const std::vector<int>& own, const std::vector<Port>& ports,
                                  const Stage::Settings& settings) {
  return std::make_unique<RankStage>(replica, parts, own, ports, settings);
}

}  // namespace tutti::train
