// A worker's copy of the model. The parameters lie one after the other in one vector, the gradients
// in another, in the order in which backward finishes them: the last layer first. All communication
// between workers is of these two; what computes them is hidden here. In mixed precision
// (Micikevicius et al. 2018) they are the float32 master parameters and gradients: the model
// computes with copies of the parameters in 16 bits, made when these have changed, and its
// gradients are added up in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/data.h"
#include "trainer/device/device.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/layout.h"
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
  void keep(const std::vector<LayerRange>& parts);

  const Device& device() const { return device_; }
  const std::vector<Parameter>& layout() const { return layout_; }
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
  std::vector<Parameter> layout_;
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

}  // namespace tutti::train
