// The models, as lists of layers. Only the files that compute include this.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "trainer/data/data.h"
#include "trainer/models/divided.h"
#include "trainer/models/shape.h"

namespace tutti::train {

struct Model : torch::nn::Module {
  std::vector<std::shared_ptr<Layer>> layers;  // null where another rank has the layer
  // Of the parameters, and of what layers take and give.
  torch::Device device{torch::kCPU};
  torch::Dtype type = torch::kFloat32;
  // The input of the first layer.
  virtual torch::Tensor input(const Batch& batch) const = 0;
  // The sum of the losses of the batch, from the output of the last layer: cross entropies in nats,
  // one for each term.
  virtual torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const = 0;

  // The output of the last layer, gathered from all ranks that divide it.
  virtual torch::Tensor whole(const torch::Tensor& output) const { return output; }

  // Layers [begin, end). `random` seeds what they draw, each layer by its number. The output of the
  // last layer is float32 at least.
  torch::Tensor run(size_t begin, size_t end, torch::Tensor x, Stash& stash, uint64_t random);
  torch::Tensor run(const torch::Tensor& x, uint64_t random = 0) {
    Stash stash;
    return run(0, layers.size(), x, stash, random);
  }

 protected:
  void append(const std::string& name, std::shared_ptr<Layer> layer) {
    layer->name = name;
    layers.push_back(register_module(name, std::move(layer)));
  }
};

// On samples x length tokens, of which every one but the last predicts the next one; the output is
// samples x (length - 1) x vocabulary.
struct TextModel : Model {
  // The logits of each of `classes` tokens, which may be divided among the group.
  TextModel(int64_t classes, const Group& group) : classes(classes), group(group) {}
  torch::Tensor whole(const torch::Tensor& output) const override;
  torch::Tensor input(const Batch& batch) const override;
  torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const override;
  int64_t classes;
  const Group& group;
};

// On samples x 1 x height x width pixels; the output is samples x classes.
struct PictureModel : Model {
  explicit PictureModel(const Data& data) : height(data.height), width(data.width) {}
  torch::Tensor input(const Batch& batch) const override;
  torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const override;
  int64_t height, width;
};

// One of the first `tokens` tokens, drawn from the logits of all.
int64_t drawn(const torch::Tensor& logits, size_t tokens, uint64_t random);

// Family::make for a model whose constructor takes these, or two of them.
template <class M>
std::shared_ptr<Model> made(const Shape& shape, const Data& data, const Split& split) {
  if constexpr (std::is_constructible_v<M, const Shape&, const Data&, const Split&>)
    return std::make_shared<M>(shape, data, split);
  else if constexpr (std::is_constructible_v<M, const Shape&, const Split&>)
    return std::make_shared<M>(shape, split);
  else
    return std::make_shared<M>(shape, data);
}

// Of the family that the shape names; the ranks of a group keep their parts. The split must outlive
// the model.
std::shared_ptr<Model> make_model(const Shape& shape, const Data& data, const Split& split);

}  // namespace tutti::train
