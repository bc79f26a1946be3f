// He et al. 2016: residual convolutional networks. Divided into strips, layers hand each other a
// rank's rows of every picture; divided by channels, whole pictures.
#include "trainer/models/convolution.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr const char* long_skip = "stem";

// The long skip connection of the small model: the stem's channels go straight to the classifier.
struct Stem : Layer {
  Stem(int64_t width, bool large, int64_t& height, const Split& split)
      : split(split), large(large) {
    convolution = register_module(
        "convolution", large ? std::make_shared<Convolution>(3, width, 7, 2, height, split)
                             : std::make_shared<Convolution>(1, width, 3, 1, height, split));
    before_pool = height = convolution->height_after();
    if (large) height = rows_after(height, pool);
  }
  Tensor forward(const Tensor& pictures, Stash& stash) override {
    Tensor x = large ? pictures.expand({-1, 3, -1, -1}) : pictures;
    if (in_strips(split)) x = strip_of(x, split.group);
    const Tensor y = torch::relu(convolution->forward(x));
    if (large)
      return in_strips(split) ? strip_max(y, before_pool, pool, split.group)
                              : torch::max_pool2d(y, pool.kernel, pool.stride, pool.padding);
    stash.put(long_skip, y);
    return y;
  }
  static constexpr Window pool{3, 2, 1};
  const Split& split;
  bool large;
  int64_t before_pool = 0;  // height
  std::shared_ptr<Convolution> convolution;
};

// Convolutions beside a skip connection; with `bottleneck` 1x1, 3x3, 1x1, else 3x3 twice.
struct Residual : Layer {
  // `height`: in: of the input pictures; out: of the output.
  Residual(int64_t in, int64_t middle, int64_t stride, bool bottleneck, int64_t& height,
           const Split& split) {
    const int64_t before = height;
    const int64_t out = bottleneck ? 4 * middle : middle;
    const auto add = [&](const char* name, int64_t from, int64_t to, int64_t kernel, int64_t step) {
      steps.push_back(register_module(
          name, std::make_shared<Convolution>(from, to, kernel, step, height, split)));
      height = steps.back()->height_after();
    };
    if (bottleneck) add("a", in, middle, 1, 1);
    add("b", bottleneck ? middle : in, middle, 3, stride);
    add("c", middle, out, bottleneck ? 1 : 3, 1);
    if (in != out || stride != 1)
      skip =
          register_module("skip", std::make_shared<Convolution>(in, out, 1, stride, before, split));
  }
  Tensor forward(const Tensor& x, Stash&) override {
    Tensor y = x;
    for (size_t i = 0; i < steps.size(); ++i) {
      y = steps[i]->forward(y);
      if (i + 1 < steps.size()) y = torch::relu(y);
    }
    return torch::relu(y + (skip ? skip->forward(x) : x));
  }
  std::vector<std::shared_ptr<Convolution>> steps;
  std::shared_ptr<Convolution> skip;
};

struct Classifier : Layer {
  Classifier(int64_t in, int64_t classes, bool large, int64_t height, int64_t stem_height,
             const Split& split)
      : split(split), large(large), height(height), stem_height(stem_height) {
    out = register_module("out", Linear(in, classes));
  }
  Tensor forward(const Tensor& x, Stash& stash) override {
    const Tensor channels = mean(x, height);
    return out(large ? channels
                     : torch::cat({channels, mean(stash.take(long_skip), stem_height)}, 1));
  }
  Tensor mean(const Tensor& x, int64_t rows) const {
    return in_strips(split) ? strip_mean(x, rows, split.group) : x.mean({2, 3});
  }
  const Split& split;
  bool large;
  int64_t height, stem_height;
  Linear out{nullptr};
};

struct Cnn : PictureModel {
  Cnn(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    const bool large = shape.size == "resnet50";
    const int64_t w = shape.width;
    int64_t rows = data.height;
    append("stem", std::make_shared<Stem>(w, large, rows, split));
    const int64_t stem_rows = rows;
    int64_t in = w;
    const std::vector<int64_t> depths =
        large ? std::vector<int64_t>{3, 4, 6, 3} : std::vector<int64_t>(size_t(shape.layers), 1);
    for (size_t stage = 0; stage < depths.size(); ++stage) {
      const int64_t middle = large ? w << stage : w * int64_t(stage + 1);
      for (int64_t i = 0; i < depths[stage]; ++i) {
        const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
        append("stage" + std::to_string(stage) + "-" + std::to_string(i),
               std::make_shared<Residual>(in, middle, stride, large, rows, split));
        in = large ? 4 * middle : middle;
      }
    }
    append("classifier",
           std::make_shared<Classifier>(large ? in : in + w, large ? 1000 : data.classes, large,
                                        rows, stem_rows, split));
  }
};

const Registered cnn({.name = "cnn",
                      .learns_from = Family::Source::pictures,
                      .sizes = {{.size = "tiny", .layers = 3, .width = 16},
                                {.size = "inception", .layers = 3, .width = 16},
                                {.size = "resnet50", .layers = 16, .width = 64}},
                      .divisible =
                          [](const Shape& shape) {
                            return shape.size == "inception" ? Divisible{4, "branches a layer"}
                                                             : Divisible{shape.width, "channels"};
                          },
                      .make = [](const Shape& shape, const Data& data,
                                 const Split& split) -> std::shared_ptr<Model> {
                        if (shape.size == "inception") return make_inception(shape, data, split);
                        return std::make_shared<Cnn>(shape, data, split);
                      }});

}  // namespace
}  // namespace tutti::train
