// Szegedy et al. 2015: blocks of parallel branches whose channels are concatenated. Divided, each
// rank has some of the branches of every block.
#include "trainer/models/convolution.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

const Split whole_layers;  // of a branch

struct InceptionStem : Layer {
  InceptionStem(int64_t width, int64_t height) {
    convolution = register_module(
        "convolution", std::make_shared<Convolution>(1, width, 3, 1, height, whole_layers));
  }
  Tensor forward(const Tensor& x, Stash&) override { return torch::relu(convolution->forward(x)); }
  std::shared_ptr<Convolution> convolution;
};

// A chain of convolutions, possibly after a pooling.
struct Branch : torch::nn::Module {
  Branch(int64_t in, int64_t out, const std::vector<int64_t>& kernels, bool pools, int64_t height)
      : pools(pools) {
    for (const int64_t kernel : kernels) {
      steps.push_back(
          register_module("step" + std::to_string(steps.size()),
                          std::make_shared<Convolution>(in, out, kernel, 1, height, whole_layers)));
      in = out;
    }
  }
  Tensor forward(Tensor x) {
    if (pools) x = torch::max_pool2d(x, 3, 1, 1);
    for (const auto& step : steps) x = torch::relu(step->forward(x));
    return x;
  }
  bool pools;
  std::vector<std::shared_ptr<Convolution>> steps;
};

constexpr int64_t branches = 4;

struct InceptionBlock : Layer, Divided {
  // Each branch has `width` output channels.
  InceptionBlock(int64_t in, int64_t width, bool shrinks, int64_t height, const Split& split)
      : group(split.group), shrinks(shrinks) {
    const std::vector<int64_t> kernels[branches] = {{1}, {1, 3}, {1, 5}, {1}};
    for (int r = 0; r < group.size; ++r)
      channels.push_back(width * part_of(branches, group.size, r).size());
    const Span own = part_of(branches, group.size, group.rank);
    // Every rank draws the parameters of all branches, and keeps its own.
    for (int64_t i = 0; i < branches; ++i) {
      const auto branch =
          std::make_shared<Branch>(in, width, kernels[i], i + 1 == branches, height);
      if (i < own.begin || i >= own.end) continue;
      const std::string name = "branch" + std::to_string(i);
      held.push_back(register_module(name, branch));
      if (group.size > 1) keep_alone(name, *branch);
    }
  }
  Tensor forward(const Tensor& x, Stash&) override {
    const Tensor all = copy_to(shrinks ? torch::max_pool2d(x, 3, 2, 1) : x, group);
    std::vector<Tensor> mine;
    mine.reserve(held.size());
    for (const auto& branch : held) mine.push_back(branch->forward(all));
    return gather_from(torch::cat(mine, 1), 1, channels, group);
  }
  const Group& group;
  bool shrinks;
  std::vector<int64_t> channels;  // of each rank
  std::vector<std::shared_ptr<Branch>> held;
};

struct InceptionClassifier : Layer {
  InceptionClassifier(int64_t in, int64_t classes) {
    out = register_module("out", Linear(in, classes));
  }
  Tensor forward(const Tensor& x, Stash&) override { return out(x.mean({2, 3})); }
  Linear out{nullptr};
};

struct Inception : PictureModel {
  Inception(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    append("stem", std::make_shared<InceptionStem>(shape.width, data.height));
    int64_t in = shape.width, rows = data.height;
    for (int64_t i = 0; i < shape.layers; ++i) {
      if (i > 0) rows = rows_after(rows, {3, 2, 1});
      append("block" + std::to_string(i),
             std::make_shared<InceptionBlock>(in, shape.width, i > 0, rows, split));
      in = branches * shape.width;
    }
    append("classifier", std::make_shared<InceptionClassifier>(in, data.classes));
  }
};

}  // namespace

std::shared_ptr<Model> make_inception(const Shape& shape, const Data& data, const Split& split) {
  return std::make_shared<Inception>(shape, data, split);
}

}  // namespace tutti::train
