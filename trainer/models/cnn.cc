// Convolutional networks: residual ones (He et al. 2016) and one of parallel branches (Szegedy et
// al. 2015). Divided into strips, layers hand each other a rank's rows of every picture; divided by
// channels or by branches, whole pictures.
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

// Convolution and normalisation over groups of channels. Not over the batch: nothing may couple the
// samples of a shard.
class Convolution : public nn::Module {
 public:
  // `height`: of the pictures. The split must outlive this.
  Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t height,
              const Split& split)
      : split_(split), height_after_(rows_after(height, {kernel, stride, kernel / 2})) {
    convolution_ = register_module(
        "convolution",
        DividedConv2d(
            nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false),
            height, split));
    norm_ =
        register_module("norm", nn::GroupNorm(nn::GroupNormOptions(out % 32 == 0 ? 32 : 4, out)));
  }
  Tensor forward(const Tensor& x) {
    return group_norm(norm_, convolution_->forward(x), height_after_, split_);
  }
  int64_t height_after() const { return height_after_; }

 private:
  const Split& split_;
  int64_t height_after_;
  DividedConv2d convolution_{nullptr};
  nn::GroupNorm norm_{nullptr};
};

// ---------------------------------------------------------------- residual

constexpr const char* long_skip = "stem";

// The long skip connection of the small model: the stem's channels go straight to the classifier.
struct Stem : Layer {
  Stem(int64_t width, bool large, bool skips, int64_t& height, const Split& split)
      : split(split), large(large), skips(skips) {
    convolution = register_module(
        "convolution", large ? std::make_shared<Convolution>(3, width, 7, 2, height, split)
                             : std::make_shared<Convolution>(1, width, 3, 1, height, split));
    height = convolution->height_after();
    if (large && in_strips(split))
      check_strips("a pooling of 3 x 3 values", height, pool, split.group.size);
    if (large) height = rows_after(height, pool);
  }
  Tensor forward(const Tensor& pictures, Stash& stash) override {
    const Tensor x = large ? pictures.expand({-1, 3, -1, -1}) : pictures;
    const Tensor y = torch::relu(convolution->forward(own_rows(x, split)));
    if (large) return max_pool(y, convolution->height_after(), pool, split);
    if (skips) stash.put(long_skip, y);
    return y;
  }
  static constexpr Window pool{3, 2, 1};
  const Split& split;
  bool large, skips;
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
  Classifier(int64_t in, int64_t classes, bool skips, int64_t height, int64_t stem_height,
             const Split& split)
      : split(split), skips(skips), height(height), stem_height(stem_height) {
    out = register_module("out", Linear(in, classes));
  }
  Tensor forward(const Tensor& x, Stash& stash) override {
    const Tensor channels = mean(x, height, split);
    if (!skips) return out(channels);
    return out(torch::cat({channels, mean(stash.take(long_skip), stem_height, split)}, 1));
  }
  const Split& split;
  bool skips;
  int64_t height, stem_height;
  Linear out{nullptr};
};

struct Cnn : PictureModel {
  Cnn(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    const bool large = shape.size == "resnet50";
    const int64_t w = shape.width;
    int64_t rows = data.height;
    append("stem", std::make_shared<Stem>(w, large, !large, rows, split));
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
           std::make_shared<Classifier>(large ? in : in + w, large ? 1000 : data.classes, !large,
                                        rows, stem_rows, split));
  }
};

// ---------------------------------------------------------------- parallel branches

// Blocks of branches whose channels are concatenated. Divided, each rank has some of the branches
// of every block.
// A chain of convolutions, possibly after a pooling.
struct Branch : torch::nn::Module {
  Branch(int64_t in, int64_t out, const std::vector<int64_t>& kernels, bool pools, int64_t height)
      : pools(pools) {
    for (const int64_t kernel : kernels) {
      steps.push_back(
          register_module("step" + std::to_string(steps.size()),
                          std::make_shared<Convolution>(in, out, kernel, 1, height, undivided)));
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

struct Inception : PictureModel {
  Inception(const Shape& shape, const Data& data, const Split& split) : PictureModel(data) {
    int64_t in = shape.width, rows = data.height;
    append("stem", std::make_shared<Stem>(in, false, false, rows, undivided));
    for (int64_t i = 0; i < shape.layers; ++i) {
      if (i > 0) rows = rows_after(rows, {3, 2, 1});
      append("block" + std::to_string(i),
             std::make_shared<InceptionBlock>(in, shape.width, i > 0, rows, split));
      in = branches * shape.width;
    }
    append("classifier", std::make_shared<Classifier>(in, data.classes, false, rows, 0, undivided));
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
                        if (shape.size == "inception")
                          return std::make_shared<Inception>(shape, data, split);
                        return std::make_shared<Cnn>(shape, data, split);
                      }});

}  // namespace
}  // namespace tutti::train
