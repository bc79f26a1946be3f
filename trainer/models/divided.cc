#include "trainer/models/divided.h"

#include <fmt/format.h>
#include <torch/nn/functional.h>

#include <algorithm>
#include <limits>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

// The input rows that the output's rows read, without padding, and how many rows of padding there
// are above and below.
struct Needed {
  Span rows;
  int64_t above = 0, below = 0;
};
Needed rows_under(const Span& output, int64_t height, const Window& w) {
  const int64_t begin = output.begin * w.stride - w.padding;
  const int64_t end = (output.end - 1) * w.stride - w.padding + w.kernel;
  return {{std::max<int64_t>(begin, 0), std::min(end, height)},
          std::max<int64_t>(-begin, 0),
          std::max<int64_t>(end - height, 0)};
}

// The input rows that the rank's rows of the output read, with the padding above and below the
// picture.
Tensor with_halo(const Tensor& x, int64_t height, const Window& window, double padding,
                 const Group& group) {
  const auto of = [&](int rank) {
    return rows_under(part_of(rows_after(height, window), group.size, rank), height, window);
  };
  std::vector<Span> needed;
  for (int r = 0; r < group.size; ++r) needed.push_back(of(r).rows);
  const Needed own = of(group.rank);
  return torch::constant_pad_nd(exchange_rows(x, height, needed, group),
                                {0, 0, own.above, own.below}, padding);
}

}  // namespace

void Divided::divide(const std::string& parameter, int64_t dimension, int64_t whole,
                     const Group& group, int64_t pieces) {
  if (group.size == 1) return;
  Division division{dimension, whole, {}};
  for (int64_t i = 0; i < pieces; ++i) {
    const Span part = part_of(whole / pieces, group.size, group.rank);
    division.spans.push_back({whole / pieces * i + part.begin, whole / pieces * i + part.end});
  }
  divisions[parameter] = division;
}

void Divided::keep_alone(const std::string& name, const nn::Module& module) {
  for (const auto& p : module.named_parameters())
    divisions[name + "." + p.key()] = {0, p.value().size(0), {{0, p.value().size(0)}}};
}

std::map<std::string, Division> divisions_of(const nn::Module& module) {
  std::map<std::string, Division> all;
  for (const auto& named : module.named_modules()) {
    const auto* divided = dynamic_cast<const Divided*>(named.value().get());
    if (!divided) continue;
    for (const auto& [parameter, division] : divided->divisions)
      all[named.key().empty() ? parameter : named.key() + "." + parameter] = division;
  }
  return all;
}

void divide(nn::Module& module) {
  const torch::NoGradGuard fixed;
  auto parameters = module.named_parameters();
  for (const auto& [name, division] : divisions_of(module)) {
    Tensor& parameter = parameters[name];
    std::vector<Tensor> parts;
    parts.reserve(division.spans.size());
    for (const Span& span : division.spans)
      parts.push_back(parameter.detach().narrow(division.dimension, span.begin, span.size()));
    parameter.set_data(torch::cat(parts, division.dimension));
  }
}

// ---------------------------------------------------------------- regions

Tensor Region::enter(const Tensor& x) const {
  return sequence_ ? gather_to(x, 1, x.size(1) * group_.size, group_) : copy_to(x, group_);
}

Tensor Region::leave(const Tensor& y) const {
  return sequence_ ? reduce_scatter_from(y, 1, group_) : reduce_from(y, group_);
}

Tensor Region::between(const Tensor& parameter) const {
  return sequence_ ? copy_to(parameter, group_) : parameter;
}

Tensor Region::norm(nn::LayerNorm& norm, const Tensor& x) const {
  return torch::layer_norm(x, norm->options.normalized_shape(), between(norm->weight),
                           between(norm->bias), norm->options.eps());
}

Tensor Region::dropout(const Tensor& x, double rate, bool training) const {
  if (!training || rate == 0) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  if (sequence_) sizes[1] *= group_.size;
  const Tensor mask = torch::empty(sizes, x.options().requires_grad(false)).bernoulli_(1 - rate);
  return x * (sequence_ ? own_part(mask, 1, group_) : mask).div(1 - rate);
}

Tensor Region::places(const Tensor& x) const { return sequence_ ? own_part(x, 0, group_) : x; }

// ---------------------------------------------------------------- matrices

ColumnLinearImpl::ColumnLinearImpl(int64_t in, int64_t out, const Group& group, int64_t pieces)
    : LinearImpl(in, out) {
  divide("weight", 0, out, group, pieces);
  divide("bias", 0, out, group, pieces);
}

Tensor ColumnLinearImpl::forward(const Tensor& x, const Region& region) {
  return LinearImpl::forward(region.enter(x));
}

RowLinearImpl::RowLinearImpl(int64_t in, int64_t out, const Group& group) : LinearImpl(in, out) {
  divide("weight", 1, in, group);
}

Tensor RowLinearImpl::forward(const Tensor& x, const Region& region) {
  if (region.group().size == 1) return LinearImpl::forward(x);
  return region.leave(linear(x, weight, Tensor())) + region.between(bias);
}

// ---------------------------------------------------------------- words

DividedEmbeddingImpl::DividedEmbeddingImpl(int64_t words, int64_t width, const Group& group)
    : EmbeddingImpl(words, width), words(words) {
  divide("weight", 0, words, group);
}

Tensor DividedEmbeddingImpl::forward(const Tensor& tokens, const Region& region) {
  const Group& group = region.group();
  if (group.size == 1) return EmbeddingImpl::forward(tokens);
  const Span own = part_of(words, group.size, group.rank);
  const Tensor foreign = tokens.lt(own.begin).logical_or(tokens.ge(own.end));
  const Tensor found = EmbeddingImpl::forward((tokens - own.begin).masked_fill(foreign, 0));
  return region.leave(found.masked_fill(foreign.unsqueeze(-1), 0));
}

Tensor divided_cross_entropy(const Tensor& logits, const Tensor& targets, int64_t classes,
                             const Group& group) {
  if (group.size == 1)
    return nn::functional::cross_entropy(
        logits, targets, nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  const Span own = part_of(classes, group.size, group.rank);
  const Tensor most = max_of(std::get<0>(logits.detach().max(1)), group);
  const Tensor sums = reduce_from((logits - most.unsqueeze(1)).exp().sum(1), group);
  const Tensor foreign = targets.lt(own.begin).logical_or(targets.ge(own.end));
  const Tensor local = (targets - own.begin).masked_fill(foreign, 0);
  const Tensor hit = logits.gather(1, local.unsqueeze(1)).squeeze(1).masked_fill(foreign, 0);
  return (sums.log() + most - reduce_from(hit, group)).sum();
}

// ---------------------------------------------------------------- pictures

void check_strips(const std::string& what, int64_t height, const Window& window, int ranks) {
  const int64_t out = rows_after(height, window);
  if (height < ranks || out < ranks)
    throw BadInput(
        fmt::format("--conv-split strips: {} rows before and {} after {} cannot be divided among "
                    "--tp {} ranks",
                    height, out, what, ranks));
  for (int r = 0; r < ranks; ++r) {
    const Span need = rows_under(part_of(out, ranks, r), height, window).rows;
    const Span own = part_of(height, ranks, r);
    const Span near = {part_of(height, ranks, std::max(r - 1, 0)).begin,
                       part_of(height, ranks, std::min(r + 1, ranks - 1)).end};
    if (need.begin < near.begin || need.end > near.end)
      throw BadInput(fmt::format(
          "--conv-split strips: {} needs {} rows of its neighbours, but strips of {} "
          "rows among --tp {} ranks are thinner",
          what, std::max(own.begin - need.begin, need.end - own.end), height / ranks, ranks));
  }
}

DividedConv2dImpl::DividedConv2dImpl(const nn::Conv2dOptions& options, int64_t height,
                                     const Split& split)
    : Conv2dImpl(options), group_(split.group), way_(split.conv), height_(height) {
  const auto& padding = *get<torch::ExpandingArray<2>>(options.padding());
  // A picture of one channel, say, is not divided.
  if (way_ == "input" && options.in_channels() < group_.size) way_ = "whole";
  window_ = {(*options.kernel_size())[0], (*options.stride())[0], padding[0]};
  if (way_ == "strips" && group_.size > 1)
    check_strips(fmt::format("a convolution of {0} x {0} values", window_.kernel), height_, window_,
                 group_.size);
  if (way_ == "output") divide("weight", 0, options.out_channels(), group_);
  if (way_ == "input") divide("weight", 1, options.in_channels(), group_);
}

Tensor DividedConv2dImpl::forward(const Tensor& x) {
  if (group_.size == 1 || way_ == "whole") return Conv2dImpl::forward(x);
  if (way_ == "output")
    return gather_from(Conv2dImpl::forward(copy_to(x, group_)), 1,
                       parts(options.out_channels(), group_), group_);
  if (way_ == "input") return reduce_from(Conv2dImpl::forward(scatter_to(x, 1, group_)), group_);
  return torch::conv2d(with_halo(x, height_, window_, 0, group_), copy_to(weight, group_), {},
                       window_.stride, at::IntArrayRef{0, window_.padding});
}

bool in_strips(const Split& split) { return split.group.size > 1 && split.conv == "strips"; }

Tensor own_rows(const Tensor& pictures, const Split& split) {
  return in_strips(split) ? own_part(pictures, 2, split.group) : pictures;
}

Tensor max_pool(const Tensor& x, int64_t height, const Window& w, const Split& split) {
  if (!in_strips(split)) return torch::max_pool2d(x, w.kernel, w.stride, w.padding);
  const double least = -std::numeric_limits<double>::infinity();
  return torch::max_pool2d(with_halo(x, height, w, least, split.group), w.kernel, w.stride,
                           {0, w.padding});
}

Tensor mean(const Tensor& x, int64_t height, const Split& split) {
  if (!in_strips(split)) return x.mean({2, 3});
  const Tensor sums = reduce_from(widened(x).sum({2, 3}), split.group);
  return (sums / double(height * x.size(3))).to(x.scalar_type());
}

Tensor group_norm(nn::GroupNorm& norm, const Tensor& x, int64_t height, const Split& split) {
  if (!in_strips(split)) return norm(x);
  const Group& group = split.group;
  const int64_t groups = norm->options.num_groups(), channels = x.size(1);
  const Tensor grouped = widened(x).reshape({x.size(0), groups, -1});
  const double terms = double(channels / groups * height * x.size(3));
  // A sum over all ranks, which each rank then uses for its own rows: its gradient is the sum of
  // the ranks' gradients.
  const auto over_all = [&](const Tensor& sums) {
    return copy_to(reduce_from(sums, group), group) / terms;
  };
  const Tensor centred = grouped - over_all(grouped.sum(2, true));
  const Tensor variance = over_all(centred.square().sum(2, true));
  const Tensor normal = (centred / (variance + norm->options.eps()).sqrt()).view(x.sizes());
  const Tensor y = normal * copy_to(norm->weight, group).view({1, channels, 1, 1}) +
                   copy_to(norm->bias, group).view({1, channels, 1, 1});
  return y.to(x.scalar_type());
}

}  // namespace tutti::train
