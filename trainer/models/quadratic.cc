// The convex problem: the loss of a sample is half the sum of h (w - c - noise)^2, with curvatures
// h of 1 and 0.5 alternating, known centres c and a noise per sample. Optimum: w = c. Validation
// has no noise, so that the optimum's loss is 0.
#include "trainer/common/random.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// From the numbers of samples to the sum of their losses.
struct Bowl : Layer {
  explicit Bowl(int64_t count) {
    weights = register_parameter("weights", torch::zeros({count}));
    const Tensor number = torch::arange(count);
    curvature = 1 - 0.5 * (number % 2);
    centres = torch::sin(number.to(torch::kFloat32));
  }
  Tensor forward(const Tensor& indices, Stash&) override {
    Tensor sum;
    for (int64_t i = 0; i < indices.size(0); ++i) {
      Tensor off = weights - centres.to(weights.device());
      if (is_training()) {
        torch::manual_seed(mixed(uint64_t(indices[i].item<int64_t>()), 7));
        off = off - 0.1 * torch::randn(weights.sizes()).to(weights.device());
      }
      const Tensor loss = (curvature.to(weights.device()) * off * off).sum() * 0.5;
      sum = sum.defined() ? sum + loss : loss;
    }
    return sum;
  }
  Tensor weights, curvature, centres;
};

struct Quadratic : Model {
  Quadratic(const Shape& shape, const Data&) {
    append("bowl", std::make_shared<Bowl>(shape.width));
  }
  Tensor input(const Batch& batch) const override {
    return torch::tensor(std::vector<int64_t>(batch.indices.begin(), batch.indices.end()));
  }
  Tensor loss(const Tensor& output, const Batch&) const override { return output; }
};

const Registered quadratic({.name = "quadratic",
                            .learns_from = Family::Source::noise,
                            .sizes = {{.layers = 1, .width = 1000}},
                            .size_is_width = true,
                            .layers = [](const Shape&, int) { return int64_t{1}; },
                            .make = made<Quadratic>});

}  // namespace
}  // namespace tutti::train
