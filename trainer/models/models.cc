#include "trainer/models/models.h"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti::train {
namespace {

using torch::Tensor;

// A copy: batches do not outlive the call that made them.
Tensor tensor_of(const std::vector<int64_t>& values, std::vector<int64_t> shape) {
  return torch::tensor(values, torch::kInt64).view(shape);
}

Tensor tokens_of(const Batch& batch, const torch::Device& device) {
  return tensor_of(batch.tokens, {batch.samples, int64_t(batch.tokens.size()) / batch.samples})
      .to(device);
}

}  // namespace

Tensor Model::run(size_t begin, size_t end, Tensor x, Stash& stash, uint64_t random) {
  for (size_t i = begin; i < end; ++i) {
    if (is_training()) layers[i]->seed(random, i);
    x = layers[i]->forward(x.view_as(x), stash);
  }
  return end == layers.size() ? widened(x) : x;
}

Tensor TextModel::input(const Batch& batch) const {
  const Tensor tokens = tokens_of(batch, device);
  return tokens.narrow(1, 0, tokens.size(1) - 1);
}

Tensor TextModel::loss(const Tensor& output, const Batch& batch) const {
  const Tensor tokens = tokens_of(batch, device);
  return divided_cross_entropy(output.reshape({-1, output.size(-1)}),
                               tokens.narrow(1, 1, tokens.size(1) - 1).reshape({-1}), classes,
                               group);
}

Tensor TextModel::whole(const Tensor& output) const {
  return gather_from(output, output.dim() - 1, parts(classes, group), group);
}

Tensor PictureModel::input(const Batch& batch) const {
  const Tensor pixels = torch::tensor(batch.pixels).view({batch.samples, 1, height, width});
  return pixels.to(device, type);
}

Tensor PictureModel::loss(const Tensor& output, const Batch& batch) const {
  const Tensor labels = tensor_of(batch.labels, {batch.samples}).to(device);
  return divided_cross_entropy(output, labels, output.size(1), {});
}

int64_t drawn(const Tensor& logits, size_t tokens, uint64_t random) {
  torch::manual_seed(random);
  const Tensor likely = torch::softmax(logits.narrow(0, 0, int64_t(tokens)) / 0.8, -1);
  return torch::multinomial(likely.to(torch::kCPU), 1).item<int64_t>();
}

std::shared_ptr<Model> make_model(const Shape& shape, const Data& data, const Split& split) {
  std::shared_ptr<Model> model = family_of(shape.name).make(shape, data, split);
  if (const int64_t told = layers_of(shape, split.group.size);
      int64_t(model->layers.size()) != told)
    throw std::logic_error(fmt::format("the model {} is said to have {} layers, and has {}",
                                       shape.name, told, model->layers.size()));
  divide(*model);
  return model;
}

}  // namespace tutti::train
