// Fully connected layers. Divided, layers come in pairs: each rank has some of the first one's
// outputs and some of the second one's inputs, so that every second layer ends with a sum over the
// ranks. All ranks compute a layer that is left over at the end.
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// y = x W + b, followed by ReLU except in the last layer.
struct Full : Layer {
  explicit Full(bool last) : last(last) {}
  virtual Tensor product(const Tensor& x) = 0;
  Tensor forward(const Tensor& x, Stash&) override {
    const Tensor y = product(x.flatten(1));
    return last ? y : torch::relu(y);
  }
  bool last;
};

struct Column : Full {
  Column(int64_t in, int64_t out, const Split& split) : Full(false), region(split) {
    linear = register_module("linear", ColumnLinear(in, out, split.group));
  }
  Tensor product(const Tensor& x) override { return linear(region.enter(x)); }
  Region region;
  ColumnLinear linear{nullptr};
};

struct Row : Full {
  Row(int64_t in, int64_t out, bool last, const Split& split) : Full(last), region(split) {
    linear = register_module("linear", RowLinear(in, out, split.group));
  }
  Tensor product(const Tensor& x) override { return linear->forward(x, region); }
  Region region;
  RowLinear linear{nullptr};
};

const Split undivided;

struct Mlp : PictureModel {
  Mlp(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    int64_t inputs = data.height * data.width;
    for (int64_t i = 0; i < shape.layers; ++i) {
      const std::string name = "layer" + std::to_string(i);
      if (i % 2 == 0)
        append(name, std::make_shared<Column>(inputs, shape.width, split));
      else
        append(name, std::make_shared<Row>(inputs, shape.width, false, split));
      inputs = shape.width;
    }
    if (shape.layers % 2 == 0)
      append("out", std::make_shared<Row>(inputs, data.classes, true, undivided));
    else
      append("out", std::make_shared<Row>(inputs, data.classes, true, split));
  }
};

const Registered mlp({.name = "mlp",
                      .learns_from = Family::Source::pictures,
                      .sizes = {{.size = "tiny", .layers = 2, .width = 128}},
                      .layers = [](const Shape& shape, int) { return shape.layers + 1; },
                      .divisible = values_of,
                      .make = made<Mlp>});

}  // namespace
}  // namespace tutti::train
