// The layers of models. A model is a list of layers: a pipeline's stage has some consecutive ones,
// a whole replica has all. Only the files that compute include this.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti::train {

// Tensors that a layer hands to a later one, bypassing the layers in between: long skip
// connections, and weights that two layers share. Each is put once and taken once.
class Stash {
 public:
  void put(const std::string& name, const torch::Tensor& tensor) {
    // A node of its own in autograd's graph, as at every layer's input: the gradients of a tensor's
    // uses are added up in the same order wherever a model is cut.
    if (!held_.emplace(name, tensor.view_as(tensor)).second)
      throw std::logic_error("two layers stash " + name);
  }
  torch::Tensor take(const std::string& name) {
    auto found = held_.extract(name);
    if (found.empty()) throw std::logic_error("no layer before has stashed " + name);
    return found.mapped();
  }
  const std::map<std::string, torch::Tensor>& held() const { return held_; }

 private:
  std::map<std::string, torch::Tensor> held_;
};

struct Layer : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& x, Stash& stash) = 0;
  // Called before forward() in training: the layer's random numbers depend only on these arguments.
  // `number`: of the layer, in the whole model.
  virtual void seed(uint64_t random, size_t number);
  std::string name;    // in the model
  bool draws = false;  // random numbers, in training
};

// Deferred gradients of weights. While one is open on a thread, backward of a forward of that
// thread defers the weight gradients of Linear and Convolution to it, and computes only the input
// gradients, which earlier layers wait for. On a GPU, backward itself runs on a thread of LibTorch.
class Deferred {
 public:
  Deferred() : place_(open_), outer_(std::exchange(open_, this)) {}
  ~Deferred() { place_ = outer_; }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  // The variable in which this thread keeps its open one, or null; valid as long as the thread.
  static Deferred** place() { return &open_; }
  // Adds a gradient to that of its parameter.
  using Work = std::function<void()>;
  std::vector<Work> work;

 private:
  static inline thread_local Deferred* open_ = nullptr;
  Deferred*& place_;  // of the thread that opened it
  Deferred* outer_;
};

// In float32 where the type has 16 bits: sums of many terms, and losses.
inline torch::Tensor widened(const torch::Tensor& x) {
  return x.element_size() == 2 ? x.to(torch::kFloat32) : x;
}

// As torch::nn's, but with deferred gradients. The bias may be undefined.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias);
struct LinearImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(Linear);

struct Conv2dImpl : torch::nn::Conv2dImpl {  // without bias
  using torch::nn::Conv2dImpl::Conv2dImpl;
  torch::Tensor forward(const torch::Tensor& x);
};

}  // namespace tutti::train
