#include "trainer/pipeline/stage.h"

#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "trainer/common/timeline.h"
#include "trainer/device/tensors.h"
#include "trainer/models/models.h"
#include "trainer/parallel/norms.h"

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
  LayerRange layers;
  std::vector<int> in, out;  // ports
  std::vector<Tensor> parameters;
  std::map<int, Live> live;    // by micro-batch
  Range place;                 // in the replica's vectors
  std::vector<Range> counted;  // relative to its begin
};

}  // namespace

struct Stage::Inside {
  Model& model;
  std::vector<Port> ports;
  Settings settings;
  Replica& replica;
  std::vector<Chunk> chunks;
  std::map<int, size_t> chunk_of;  // a part
  std::map<Key, Tensor> came, made;
  std::map<int, Tensor> weights;  // by port: received with one of the first micro-batches
  Tensor logits;
  int64_t bytes = 0, peak = 0;

  bool first(const Chunk& chunk) const { return chunk.layers.begin == 0; }
  bool last(const Chunk& chunk) const { return chunk.layers.end == model.layers.size(); }

  Tensor take(const Key& key) {
    const auto found = came.extract(key);
    if (found.empty()) throw std::logic_error("a part runs before what it needs has come");
    return found.mapped().to(model.device);
  }

  // Hands the tensor to a part of this rank, or keeps it to be sent.
  void hand_over(const Key& key, const Tensor& tensor) {
    const Port& port = ports[size_t(key.port)];
    const int to = key.gradient ? port.connection.from : port.connection.to;
    const Tensor whole = tensor.detach().contiguous();
    if (chunk_of.count(to))
      came[key] = whole;
    else
      made[key] = whole.to(torch::kCPU);
  }

  // The tensors that come into the chunk.
  std::vector<Tensor> leaves(const Chunk& chunk, int micro_batch) {
    std::vector<Tensor> all;
    for (const int p : chunk.in) {
      const Port& port = ports[size_t(p)];
      if (!port.weight) {
        all.push_back(leaf_of(take({p, micro_batch, false})));
        continue;
      }
      const Key key{p, micro_batch, false};
      if (came.count(key)) weights[p] = take(key);
      all.push_back(leaf_of(weights.at(p)));
    }
    return all;
  }

  void run(const Chunk& chunk, Live& live) {
    Stash stash;
    Tensor x;
    for (size_t i = 0; i < chunk.in.size(); ++i) {
      const Port& port = ports[size_t(chunk.in[i])];
      if (port.name.empty())
        x = live.leaves[i];
      else
        stash.put(port.name, live.leaves[i]);
    }
    if (first(chunk)) x = model.input(live.batch);
    x = model.run(chunk.layers.begin, chunk.layers.end, x, stash, live.random);
    live.outputs.clear();
    for (const int p : chunk.out) {
      const Port& port = ports[size_t(p)];
      live.outputs.push_back(port.name.empty() ? x : stash.take(port.name));
    }
    if (!stash.held().empty())
      throw std::logic_error("no layer takes " + stash.held().begin()->first + " out of the stash");
    if (last(chunk)) {
      logits = x.detach();
      live.loss = model.loss(x, live.batch);
    }
  }

  void hand_over_outputs(const Chunk& chunk, const Live& live, int micro_batch) {
    for (size_t i = 0; i < chunk.out.size(); ++i)
      if (ports[size_t(chunk.out[i])].connection.sent_with(micro_batch))
        hand_over({chunk.out[i], micro_batch, false}, live.outputs[i]);
  }

  // After its last gradient.
  void retire(Chunk& chunk, int micro_batch) {
    bytes -= chunk.live.at(micro_batch).bytes;
    chunk.live.erase(micro_batch);
  }

  void add(const Chunk& chunk, const std::vector<Tensor>& gradients) {
    for (const Tensor& p : chunk.parameters) p.mutable_grad().zero_();
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) chunk.parameters[i].mutable_grad().add_(gradients[i]);
  }
};

Stage::Stage(Replica& replica, const std::vector<LayerRange>& parts, const std::vector<int>& own,
             const std::vector<Port>& ports, const Settings& settings)
    : inside_(new Inside{replica.model(), ports, settings, replica, {}, {}, {}, {}, {}, {}, 0, 0}) {
  Inside& in = *inside_;
  std::vector<LayerRange> kept;
  for (const int part : own) kept.push_back(parts[size_t(part)]);
  replica.keep(kept);
  std::map<std::string, size_t> offsets;
  for (const Parameter& p : replica.layout()) offsets[p.name] = p.offset;
  for (const int part : own) {
    in.chunk_of[part] = in.chunks.size();
    Chunk& chunk = in.chunks.emplace_back();
    chunk.layers = parts[size_t(part)];
    for (size_t p = 0; p < ports.size(); ++p) {
      if (ports[p].connection.to == part) chunk.in.push_back(int(p));
      if (ports[p].connection.from == part) chunk.out.push_back(int(p));
    }
    chunk.place = {replica.size(), 0};
    for (size_t i = chunk.layers.begin; i < chunk.layers.end; ++i)
      for (const auto& p : in.model.layers[i]->named_parameters()) {
        chunk.parameters.push_back(p.value());
        const size_t at = offsets.at(in.model.layers[i]->name + "." + p.key());
        chunk.place.begin = std::min(chunk.place.begin, at);
        chunk.place.end = std::max(chunk.place.end, at + size_t(p.value().numel()));
      }
    if (chunk.parameters.empty()) chunk.place = {};
    for_counted(replica.layout(), chunk.place, [&](Range own) {
      chunk.counted.push_back({own.begin - chunk.place.begin, own.end - chunk.place.begin});
    });
  }
}

Stage::~Stage() = default;

std::span<std::byte> Stage::incoming(const Key& key, int64_t samples) {
  const Port& port = inside_->ports[size_t(key.port)];
  std::vector<int64_t> sizes = port.sizes;
  if (!port.weight) sizes.front() = samples;
  const auto type = inside_->replica.width() == 8 ? torch::kFloat64 : torch::kFloat32;
  const auto options = torch::dtype(type).pinned_memory(inside_->model.device.is_cuda());
  return bytes_of(inside_->came[key] = torch::empty(sizes, options));
}

std::span<const std::byte> Stage::outgoing(const Key& key) const {
  return bytes_of(inside_->made.at(key));
}

void Stage::drop(const Key& key) { inside_->made.erase(key); }

double Stage::forward(int number, int micro_batch, const Batch& batch, uint64_t random) {
  Inside& in = *inside_;
  Chunk& chunk = in.chunks[size_t(number)];
  Live& live = chunk.live[micro_batch];
  in.model.train();
  const int64_t before = allocated(device());
  live.batch = batch;
  live.random = random;
  live.leaves = in.leaves(chunk, micro_batch);
  {
    const torch::AutoGradMode graph(!in.settings.recompute);
    in.run(chunk, live);
  }
  in.hand_over_outputs(chunk, live, micro_batch);
  const double loss = live.loss.defined() ? live.loss.item<double>() : 0;
  if (in.settings.recompute) {
    live.outputs.clear();
    live.loss = Tensor();
  }
  live.bytes = allocated(device()) - before;  // and what was received before:
  for (const Tensor& leaf : live.leaves) live.bytes += int64_t(leaf.nbytes());
  in.bytes += live.bytes;
  device().wait();
  in.peak = std::max(in.peak, in.bytes);
  return loss;
}

void Stage::backward(int number, int micro_batch, double scale) {
  Inside& in = *inside_;
  Chunk& chunk = in.chunks[size_t(number)];
  Live& live = chunk.live.at(micro_batch);
  if (in.settings.recompute) in.run(chunk, live);
  std::vector<Tensor> roots, above;
  for (size_t i = 0; i < chunk.out.size(); ++i) {
    roots.push_back(live.outputs[i]);
    above.push_back(in.take({chunk.out[i], micro_batch, true}));
  }
  if (in.last(chunk)) {
    roots.push_back(live.loss * scale);
    above.push_back(torch::ones_like(live.loss));
  }
  std::vector<Tensor> wanted = live.leaves;
  wanted.insert(wanted.end(), chunk.parameters.begin(), chunk.parameters.end());
  std::unique_ptr<Deferred> deferred;
  if (in.settings.split) deferred = std::make_unique<Deferred>();
  std::vector<Tensor> found =
      torch::autograd::grad(roots, wanted, above, c10::nullopt, false, true);
  for (size_t i = 0; i < chunk.in.size(); ++i)
    in.hand_over({chunk.in[i], micro_batch, true},
                 found[i].defined() ? found[i] : torch::zeros_like(live.leaves[i]));
  device().wait();
  found.erase(found.begin(), found.begin() + std::ptrdiff_t(live.leaves.size()));
  if (in.settings.split) {
    live.early = std::move(found);
    live.later = std::move(deferred->work);
    live.outputs.clear();
    live.loss = Tensor();
    return;
  }
  in.add(chunk, found);
  in.retire(chunk, micro_batch);
}

void Stage::weight(int number, int micro_batch) {
  Inside& in = *inside_;
  Chunk& chunk = in.chunks[size_t(number)];
  const Live& live = chunk.live.at(micro_batch);
  in.add(chunk, live.early);
  for (const Deferred::Work& work : live.later) work();
  device().wait();
  in.retire(chunk, micro_batch);
}

template <class Real>
std::span<Real> Stage::gradients(int chunk) {
  const Range place = inside_->chunks[size_t(chunk)].place;
  return inside_->replica.gradients<Real>().subspan(place.begin, place.size());
}
template std::span<float> Stage::gradients(int chunk);
template std::span<double> Stage::gradients(int chunk);

const Device& Stage::device() const { return inside_->replica.device(); }

const std::vector<Range>& Stage::counted(int chunk) const {
  return inside_->chunks[size_t(chunk)].counted;
}

std::span<const std::byte> Stage::parameters(int chunk) const {
  const Range place = inside_->chunks[size_t(chunk)].place;
  const size_t width = inside_->replica.width();
  return inside_->replica.bytes().subspan(width * place.begin, width * place.size());
}

double Stage::evaluate(int number, const Batch& batch) {
  Inside& in = *inside_;
  const Chunk& chunk = in.chunks[size_t(number)];
  const torch::NoGradGuard fixed;
  in.model.eval();
  Live live;
  live.batch = batch;
  live.leaves = in.leaves(chunk, 0);
  in.run(chunk, live);
  in.hand_over_outputs(chunk, live, 0);
  return live.loss.defined() ? live.loss.item<double>() : 0;
}

int64_t Stage::draw(int64_t place, uint64_t random) {
  const torch::NoGradGuard fixed;
  return drawn(inside_->model.whole(inside_->logits)[0][place], random);
}

bool Stage::first(int chunk) const { return inside_->first(inside_->chunks[size_t(chunk)]); }
bool Stage::last(int chunk) const { return inside_->last(inside_->chunks[size_t(chunk)]); }
size_t Stage::peak_bytes() const { return size_t(inside_->peak); }

}  // namespace tutti::train
