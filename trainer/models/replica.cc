#include "trainer/models/replica.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/device/tensors.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

using torch::Tensor;

// Called by autograd after the gradient of a parameter was added.
struct Accumulated : torch::autograd::FunctionPostHook {
  explicit Accumulated(std::function<void()> call) : call(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call();
    return outputs;
  }
  std::function<void()> call;
};

torch::Dtype type_of(const Shape& shape) {
  return shape.dtype == "float64" ? torch::kFloat64 : torch::kFloat32;
}
// Of forward and backward.
torch::Dtype computed_type(const Shape& shape) {
  if (shape.precision == "bf16") return torch::kBFloat16;
  return shape.precision == "fp16" ? torch::kHalf : type_of(shape);
}

}  // namespace

struct Replica::Inside {
  Shape shape;
  Split split;
  std::shared_ptr<Model> model;
  Tensor parameters, gradients;
  Tensor rounded;  // the copies that the model computes with; undefined: it has the parameters
  // A parameter refers to the node that adds up its gradient only weakly.
  using Node = decltype(torch::autograd::impl::grad_accumulator(std::declval<const Tensor&>()));
  std::vector<Node> nodes;
  std::vector<char> fired;
  const Ready* ready = nullptr;

  void fire(size_t parameter) {
    if (!ready || fired[parameter]) return;
    fired[parameter] = 1;
    (*ready)(parameter);
  }
};

Replica::Replica(const Shape& shape, const Data& data, uint64_t seed, const Split& split,
                 const Device& device)
    : inside_(std::make_unique<Inside>()), device_(device) {
  Inside& in = *inside_;
  in.shape = shape;
  in.split = split;
  torch::manual_seed(seed);
  in.model = make_model(shape, data, in.split);
  if (shape.dtype == "float64") in.model->to(torch::kFloat64);
  in.model->device = torch_device(device);
  in.model->type = computed_type(shape);
  flatten();
}

void Replica::flatten() {
  Inside& in = *inside_;
  const auto divisions = divisions_of(*in.model);
  auto named = in.model->named_parameters().pairs();
  std::reverse(named.begin(), named.end());
  const auto part = [](const Tensor& flat, const Parameter& p) {
    return flat.narrow(0, int64_t(p.offset), int64_t(p.count)).view(p.shape);
  };
  std::map<std::string, Tensor> before;
  for (const Parameter& p : layout_) before[p.name] = part(in.parameters, p);
  layout_.clear();
  in.nodes.clear();
  size_t total = 0;
  for (const auto& [name, tensor] : named) {
    const auto divided = divisions.find(name);
    const bool whole = divided == divisions.end();
    layout_.push_back({name, tensor.sizes().vec(), total, size_t(tensor.numel()),
                       whole ? Division{} : divided->second, !whole || in.split.group.rank == 0});
    total += size_t(tensor.numel());
  }
  const auto type = torch::dtype(type_of(in.shape)).device(torch_device(device_));
  in.parameters = torch::empty({int64_t(total)}, type);
  in.gradients = torch::zeros({int64_t(total)}, type);
  if (in.shape.precision != "full")
    in.rounded = torch::empty({int64_t(total)}, type.dtype(in.model->type));
  changed_ = true;
  parameters_ = in.parameters.data_ptr();
  gradients_ = in.gradients.data_ptr();
  size_ = total;
  width_ = in.parameters.element_size();
  for (size_t i = 0; i < named.size(); ++i) {
    Tensor& tensor = named[i].second;
    Tensor home = part(in.parameters, layout_[i]);
    const auto was = before.find(named[i].first);
    home.copy_(was == before.end() ? tensor.detach() : was->second);
    tensor.set_data(in.rounded.defined() ? part(in.rounded, layout_[i]) : home);
    tensor.mutable_grad() = part(in.gradients, layout_[i]);
    in.nodes.push_back(torch::autograd::impl::grad_accumulator(tensor));
    in.nodes.back()->add_post_hook(std::make_unique<Accumulated>([&in, i] { in.fire(i); }));
  }
  in.fired.resize(named.size());
}

void Replica::keep(const std::vector<Range>& parts) {
  Inside& in = *inside_;
  for (size_t i = 0; i < in.model->layers.size(); ++i) {
    const bool kept = std::any_of(parts.begin(), parts.end(), [i](const Range& part) {
      return part.begin <= i && i < part.end;
    });
    if (kept) continue;
    in.model->unregister_module(in.model->layers[i]->name);
    in.model->layers[i] = nullptr;
  }
  flatten();
}

Model& Replica::model() {
  Inside& in = *inside_;
  if (changed_ && in.rounded.defined()) in.rounded.copy_(in.parameters);
  changed_ = false;
  return *in.model;
}

void Replica::unscale(const Range& part) {
  if (loss_scale_ != 1)
    inside_->gradients.narrow(0, int64_t(part.begin), int64_t(part.size())).mul_(1 / loss_scale_);
}

Replica::~Replica() = default;

double Replica::backward(const Batch& batch, double scale, uint64_t random, const Ready& ready) {
  Inside& in = *inside_;
  const Ready unscaled = [&](size_t i) {
    unscale(layout_[i].range());
    ready(i);
  };
  in.ready = &unscaled;
  std::fill(in.fired.begin(), in.fired.end(), char(0));
  in.gradients.zero_();
  double sum = 0;
  if (batch.samples > 0) {
    Model& model = this->model();
    model.train();
    const Tensor loss = model.loss(model.run(model.input(batch), random), batch);
    sum = loss.item<double>();
    (loss * (scale * loss_scale_)).backward();
  }
  for (size_t i = 0; i < in.fired.size(); ++i) in.fire(i);
  in.ready = nullptr;
  device_.wait();
  return sum;
}

double Replica::loss(const Batch& batch) {
  const torch::NoGradGuard fixed;
  Model& model = this->model();
  model.eval();
  return model.loss(model.run(model.input(batch)), batch).item<double>();
}

std::string Replica::generate(const Vocabulary& vocabulary, const std::string& prompt,
                              int64_t bytes, uint64_t seed) {
  const Shape& shape = inside_->shape;
  if (!family_of(shape.name).continues_texts) return "";
  const torch::NoGradGuard fixed;
  Model& model = this->model();
  model.eval();
  const auto next = [&](std::vector<int64_t> recent, uint64_t random) {
    const auto last = int64_t(recent.size()) - 1;
    // Sequences are divided evenly, so they are padded; later tokens have no influence.
    while (inside_->split.sequence && recent.size() % size_t(inside_->split.group.size) != 0)
      recent.push_back(0);
    const Tensor logits = model.whole(
        model.run(torch::tensor(recent).view({1, int64_t(recent.size())}).to(model.device)));
    return drawn(logits[0][last], vocabulary.size(), random);
  };
  return generate_text(vocabulary, prompt, bytes, shape.context, seed, next);
}

void check_precision(const Shape& shape, const Device& device) {
  if (shape.precision == "full" || shape.name == "quadratic") return;
  try {
    const Tensor x =
        torch::ones({2, 2}, torch::dtype(computed_type(shape)).device(torch_device(device)));
    x.mm(x);
  } catch (const c10::Error&) {
    throw BadInput(
        fmt::format("--precision {}: {} multiplies no matrices of that type on --device {}",
                    shape.precision, tensor_library(), device.is_gpu() ? device.name() : "cpu"));
  }
}

void use_threads(int threads) { at::set_num_threads(threads); }

std::string tensor_library() { return std::string("LibTorch ") + TORCH_VERSION; }

}  // namespace tutti::train
