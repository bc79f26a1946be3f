#include "trainer/pipeline/stage.h"

#include "trainer/common/timeline.h"
#include "trainer/pipeline/pipeline.h"

namespace tutti::train {
namespace {

using torch::Tensor;

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

}  // namespace tutti::train
