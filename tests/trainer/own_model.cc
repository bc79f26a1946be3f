// A model of one's own, in a file anywhere.
#include "trainer/models/models.h"

namespace {

using namespace tutti::train;
using torch::Tensor;

struct Dense : Layer {
  Dense(int64_t in, int64_t out) { linear = register_module("linear", Linear(in, out)); }
  Tensor forward(const Tensor& x, Stash&) override { return linear(torch::tanh(x.flatten(1))); }
  Linear linear{nullptr};
};

struct Mine : PictureModel {
  Mine(const Shape& shape, const Data& data) : PictureModel(data) {
    append("first", std::make_shared<Dense>(data.height * data.width, shape.width));
    for (int64_t i = 0; i < shape.layers; ++i)
      append("dense" + std::to_string(i), std::make_shared<Dense>(shape.width, shape.width));
    append("last", std::make_shared<Dense>(shape.width, data.classes));
  }
};

const Registered mine({.name = "mine",
                       .learns_from = Family::Source::pictures,
                       .sizes = {{.size = "tiny", .layers = 2, .width = 32}},
                       .make = made<Mine>});

}  // namespace
