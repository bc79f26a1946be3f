// Radford et al. 2019: a decoder on bytes. The output layer shares the embedding's weights.
#include <cmath>

#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr const char* shared = "words";

struct Embedding : Layer {
  Embedding(const Shape& shape, const Split& split) : region(split) {
    words = register_module("words", DividedEmbedding(shape.vocabulary, shape.width, split.group));
    places = register_module("places", nn::Embedding(shape.context, shape.width));
  }
  Tensor forward(const Tensor& tokens, Stash& stash) override {
    stash.put(shared, words->weight);
    return words->forward(tokens, region) +
           torch::embedding(region.between(places->weight),
                            region.places(torch::arange(tokens.size(1), tokens.options())));
  }
  Region region;
  DividedEmbedding words{nullptr};
  nn::Embedding places{nullptr};
};

// Attention and a two-layer network, each after a normalisation and with a skip connection.
// Divided, a rank has some of the heads and some of the network's hidden units.
struct Block : Layer {
  Block(const Shape& shape, const Split& split)
      : region(split),
        heads(shape.heads / split.group.size),
        head(shape.width / shape.heads),
        dropout(shape.dropout) {
    draws = dropout > 0;
    const int64_t w = shape.width;
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({w})));
    qkv = register_module("qkv", ColumnLinear(w, 3 * w, split.group, 3));
    out = register_module("out", RowLinear(w, w, split.group));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({w})));
    up = register_module("up", ColumnLinear(w, 4 * w, split.group));
    down = register_module("down", RowLinear(4 * w, w, split.group));
  }
  Tensor attention(const Tensor& x) {
    const Tensor all = qkv->forward(x, region);
    const int64_t batch = all.size(0), length = all.size(1);
    const auto parts = all.view({batch, length, 3, heads, head}).permute({2, 0, 3, 1, 4});
    const Tensor later = torch::full({length, length}, -INFINITY, x.options()).triu(1);
    const Tensor scores =
        torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(double(head)) + later;
    const Tensor mixed = torch::matmul(torch::softmax(scores, -1), parts[2]);
    return out->forward(mixed.transpose(1, 2).reshape({batch, length, heads * head}), region);
  }
  Tensor forward(const Tensor& x, Stash&) override {
    const auto dropped = [&](const Tensor& z) { return region.dropout(z, dropout, is_training()); };
    const Tensor y = x + dropped(attention(region.norm(norm1, x)));
    const Tensor hidden = torch::gelu(up->forward(region.norm(norm2, y), region));
    return y + dropped(down->forward(hidden, region));
  }
  Region region;
  int64_t heads, head;
  double dropout;
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  ColumnLinear qkv{nullptr}, up{nullptr};
  RowLinear out{nullptr}, down{nullptr};
};

struct Head : Layer {
  Head(const Shape& shape, const Split& split) : region(split) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({shape.width})));
  }
  Tensor forward(const Tensor& x, Stash& stash) override {
    return torch::matmul(region.enter(region.norm(norm, x)), stash.take(shared).t());
  }
  Region region;
  nn::LayerNorm norm{nullptr};
};

struct Gpt : TextModel {
  Gpt(const Shape& shape, const Split& split) : TextModel(shape.vocabulary, split.group) {
    append("embedding", std::make_shared<Embedding>(shape, split));
    for (int64_t i = 0; i < shape.layers; ++i)
      append("block" + std::to_string(i), std::make_shared<Block>(shape, split));
    append("head", std::make_shared<Head>(shape, split));
    const double towards_output = 0.02 / std::sqrt(2.0 * double(shape.layers));
    const torch::NoGradGuard fixed;
    for (const auto& parameter : named_parameters()) {
      const std::string& name = parameter.key();
      const bool last =
          name.find("out.w") != std::string::npos || name.find("down.w") != std::string::npos;
      if (parameter.value().dim() > 1)
        parameter.value().normal_(0, last ? towards_output : 0.02);
      else if (name.ends_with("bias"))
        parameter.value().zero_();
    }
  }
};

const Registered gpt({.name = "gpt",
                      // layers, width, heads, context, vocabulary
                      .sizes = {{"gpt", "tiny", 4, 128, 4, 128, 256},
                                {"gpt", "small", 6, 384, 6, 256, 256},
                                {"gpt", "124m", 12, 768, 12, 1024, 50257}},
                      .continues_texts = true,
                      .has_dropout = true,
                      .steps = 300,
                      .divisible = values_of,
                      .make = made<Gpt>});

}  // namespace
}  // namespace tutti::train
