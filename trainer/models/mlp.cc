// Fully connected layers. Divided, layers come in pairs: each rank has some of the first one's
// outputs and some of the second one's inputs, so that every second layer ends with a sum over the
// ranks. All ranks compute a layer that is left over at the end.
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// y = x W + b, followed by ReLU except in the last layer.
template <class Product>
struct Full : Layer {
  Full(int64_t in, int64_t out, bool last, const Split& split)
      : region(split), last(last), linear(in, out, split.group) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x, Stash&) override {
    const Tensor y = linear->forward(x.flatten(1), region);
    return last ? y : torch::relu(y);
  }
  Region region;
  bool last;
  Product linear;
};

struct Mlp : PictureModel {
  Mlp(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    int64_t inputs = data.height * data.width;
    for (int64_t i = 0; i < shape.layers; ++i) {
      const std::string name = "layer" + std::to_string(i);
      if (i % 2 == 0)
        append(name, std::make_shared<Full<ColumnLinear>>(inputs, shape.width, false, split));
      else
        append(name, std::make_shared<Full<RowLinear>>(inputs, shape.width, false, split));
      inputs = shape.width;
    }
    append("out", std::make_shared<Full<RowLinear>>(inputs, data.classes, true,
                                                    shape.layers % 2 == 0 ? undivided : split));
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
