#include "trainer/models/layer.h"

#include "trainer/common/random.h"

namespace tutti::train {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

void keep_place(AutogradContext* context) {
  context->saved_data["place"] = int64_t(reinterpret_cast<intptr_t>(Deferred::place()));
}

// Returns the gradients of parameters to autograd or, if they are deferred, leaves adding them for
// later. `gradients` computes them in the order of `parameters`. `place`: as forward saved it.
variable_list now_or_later(AutogradContext* context, std::vector<Tensor> parameters,
                           std::function<variable_list()> gradients) {
  Deferred* const later = *reinterpret_cast<Deferred**>(context->saved_data["place"].toInt());
  if (!later) return gradients();
  later->work.push_back([parameters, gradients = std::move(gradients)] {
    const torch::NoGradGuard fixed;
    const variable_list made = gradients();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad().add_(made[i]);
  });
  return variable_list(parameters.size());
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const c10::optional<Variable>& bias) {
    context->save_for_backward({x, weight, bias.value_or(Tensor())});
    keep_place(context);
    return at::linear(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const Tensor x = saved[0], weight = saved[1], bias = saved[2];
    const Tensor flat = outer[0].reshape({-1, outer[0].size(-1)});
    Tensor back;
    if (context->needs_input_grad(0)) back = flat.mm(weight).view(x.sizes());
    std::vector<Tensor> parameters = {weight};
    if (bias.defined()) parameters.push_back(bias);
    variable_list rest = now_or_later(context, parameters, [=] {
      variable_list made = {flat.t().mm(x.reshape({-1, x.size(-1)}))};
      if (bias.defined()) made.push_back(flat.sum(0));
      return made;
    });
    rest.resize(2);
    return {back, rest[0], rest[1]};
  }
};

struct Conv2dFunction : torch::autograd::Function<Conv2dFunction> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          std::vector<int64_t> stride, std::vector<int64_t> padding) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    keep_place(context);
    return at::conv2d(x, weight, {}, stride, padding);
  }
  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const Tensor x = saved[0], weight = saved[1], out = outer[0];
    const auto stride = context->saved_data["stride"].toIntVector();
    const auto padding = context->saved_data["padding"].toIntVector();
    const auto gradients = [=](bool of_input) {
      return at::convolution_backward(out, x, weight, c10::nullopt, stride, padding, {1, 1}, false,
                                      {0, 0}, 1, {of_input, !of_input, false});
    };
    Tensor back;
    if (context->needs_input_grad(0)) back = std::get<0>(gradients(true));
    variable_list rest = now_or_later(context, {weight}, [gradients]() -> variable_list {
      return {std::get<1>(gradients(false))};
    });
    return {back, rest[0], {}, {}};
  }
};

}  // namespace

void Layer::seed(uint64_t random, size_t number) {
  if (draws) torch::manual_seed(mixed(random, number));
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return LinearFunction::apply(x, weight,
                               bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt);
}

Tensor LinearImpl::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Conv2dImpl::forward(const Tensor& x) {
  const auto& stride = *options.stride();
  const auto& padding = *get<torch::ExpandingArray<2>>(options.padding());
  return Conv2dFunction::apply(x, weight, std::vector<int64_t>(stride.begin(), stride.end()),
                               std::vector<int64_t>(padding.begin(), padding.end()));
}

}  // namespace tutti::train
