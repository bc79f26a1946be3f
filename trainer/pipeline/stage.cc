#include "trainer/pipeline/stage.h"

#include "trainer/common/timeline.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// Whether the tensor is a parameter: of a parameter the stash holds a view.
bool is_weight(const Tensor& tensor) {
  return tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
}

}  // namespace

ModelFacts facts_of(Replica& whole, const Batch& batch, bool timed) {
  Model& model = whole.model();
  model.train();
  ModelFacts facts;
  for (int round = 0; round < (timed ? 3 : 1); ++round) {
    const std::vector<ModelFacts::Layer> before = std::move(facts.layers);
    facts = {};
    std::map<std::string, Tensor> held;  // in the stash between two layers, as leaves
    Tensor x = model.input(batch);
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const double from = now();
      Stash stash;
      for (const auto& [name, tensor] : held) stash.put(name, tensor);
      const Tensor y = model.run(i, i + 1, x, stash, 0);
      for (const auto& [name, tensor] : stash.held())
        if (held.emplace(name, leaf_of(tensor)).second)
          facts.skips.push_back({name, i, i, tensor.sizes().vec(), is_weight(tensor)});
      for (ModelFacts::Skip& skip : facts.skips)
        if (!stash.held().count(skip.name) && held.erase(skip.name)) skip.to = i;
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
