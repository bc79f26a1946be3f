// A worker's copy of the model. The parameters lie one after the other in one vector, the gradients
// in another, in the order in which backward finishes them: the last layer first. All communication
// between workers is of these two; what computes them is hidden here. In mixed precision
// (Micikevicius et al. 2018) they are the float32 master parameters and gradients: the model
// computes with copies of the parameters in 16 bits, made when these have changed, and its
// gradients are added up in float32.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/random.h"
#include "trainer/data/data.h"
#include "trainer/device/device.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

struct Model;

class Replica {
 public:
  // The first parameters are drawn on the host, whatever the device.
  Replica(const Shape& shape, const Data& data, uint64_t seed, const Split& split = {},
          const Device& device = {});
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Drops all layers but those of these parts; the vectors then hold only their parameters.
  void keep(const std::vector<Range>& parts);

  const Device& device() const { return device_; }
  const Layout& layout() const { return layout_; }
  // On the device, of the type that the shape names: float or double. To be written to only before
  // the model is used again.
  template <class Real = float>
  std::span<Real> parameters() {
    changed_ = true;
    return {static_cast<Real*>(parameters_), size_};
  }
  template <class Real = float>
  std::span<Real> gradients() {
    return {static_cast<Real*>(gradients_), size_};
  }
  size_t size() const { return size_; }    // elements of each of the two vectors
  size_t width() const { return width_; }  // bytes of an element
  // The parameters, whatever their type.
  std::span<std::byte> bytes() {
    changed_ = true;
    return {static_cast<std::byte*>(parameters_), size_ * width_};
  }

  // Sets gradients() to those of scale * (the sum of the batch's losses), and returns the sum.
  // `random` seeds dropout. `ready(i)` is called when the gradient of parameter i is final: once
  // for every parameter, in any order, also for those that the loss does not depend on. It may
  // throw. An empty batch gives zeros.
  using Ready = std::function<void(size_t parameter)>;
  double backward(const Batch& batch, double scale, uint64_t random, const Ready& ready);

  // The sum of the losses, without gradients.
  double loss(const Batch& batch);
  // The model's continuation of the prompt; empty for models that are not of text. Collective over
  // the ranks of the split, as the two above.
  std::string generate(const Vocabulary& vocabulary, const std::string& prompt, int64_t bytes,
                       uint64_t seed);

  // Losses are multiplied by this before backward, and gradients divided by it when they are final:
  // those that are small do not vanish in fp16. A power of two, so that it rounds nothing else.
  void scale_losses(double scale) { loss_scale_ = scale; }

  // For the files that compute. Makes the copies in 16 bits if parameters may have changed.
  Model& model();
  double loss_scale() const { return loss_scale_; }
  // Divides final gradients of this part of the vector by the loss scale.
  void unscale(const Range& part);

 private:
  // Makes the two vectors the home of the model's parameters and gradients.
  void flatten();
  struct Inside;
  std::unique_ptr<Inside> inside_;
  Device device_;
  Layout layout_;
  void* parameters_ = nullptr;
  void* gradients_ = nullptr;
  size_t size_ = 0, width_ = 0;
  bool changed_ = true;  // the parameters, perhaps, since the copies were made
  double loss_scale_ = 1;
};

// Throws BadInput if LibTorch does not multiply matrices of this --precision on the device.
void check_precision(const Shape& shape, const Device& device);
// Makes LibTorch compute with this many threads in this process.
void use_threads(int threads);
// "LibTorch 1.13.1, OpenBLAS ...", for the heading.
std::string tensor_library();

// Text, token by token: the prompt and `bytes` more. `next(recent, random)`: the token that follows
// the most recent ones, at most `context` of them; drawn with `random`.
template <class Next>
std::string generate_text(const Vocabulary& vocabulary, const std::string& prompt, int64_t bytes,
                          int64_t context, uint64_t seed, Next&& next) {
  const std::vector<uint16_t> first = vocabulary.encoded(prompt);
  std::vector<int64_t> tokens(first.begin(), first.end());
  std::string text = prompt;
  const size_t whole = prompt.size() + size_t(bytes);
  for (uint64_t i = 0; text.size() < whole; ++i) {
    const int64_t length = std::min<int64_t>(int64_t(tokens.size()), context);
    tokens.push_back(
        next(std::vector<int64_t>(tokens.end() - length, tokens.end()), mixed(seed, i)));
    text += vocabulary.decoded(std::array{tokens.back()});
  }
  text.resize(whole);
  return text;
}

}  // namespace tutti::train
