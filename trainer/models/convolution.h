// Convolution and normalisation over groups of channels. Not over the batch: nothing may couple the
// samples of a shard. Only the files that compute include this.
#pragma once

#include <memory>

#include "trainer/models/divided.h"
#include "trainer/models/shape.h"

namespace tutti::train {

// Whether layers hand each other strips of pictures rather than whole pictures.
inline bool in_strips(const Split& split) { return split.group.size > 1 && split.conv == "strips"; }

class Convolution : public torch::nn::Module {
 public:
  // `height`: of the pictures. The split must outlive this.
  Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t height,
              const Split& split)
      : split_(split), height_after_(rows_after(height, {kernel, stride, kernel / 2})) {
    convolution_ =
        register_module("convolution", DividedConv2d(torch::nn::Conv2dOptions(in, out, kernel)
                                                         .stride(stride)
                                                         .padding(kernel / 2)
                                                         .bias(false),
                                                     height, split));
    norm_ = register_module(
        "norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(out % 32 == 0 ? 32 : 4, out)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = convolution_->forward(x);
    return in_strips(split_) ? strip_norm(norm_, y, height_after_, split_.group) : norm_(y);
  }
  int64_t height_after() const { return height_after_; }

 private:
  const Split& split_;
  int64_t height_after_;
  DividedConv2d convolution_{nullptr};
  torch::nn::GroupNorm norm_{nullptr};
};

// cnn:inception.
std::shared_ptr<Model> make_inception(const Shape& shape, const Data& data, const Split& split);

}  // namespace tutti::train
