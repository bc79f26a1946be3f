// Stacked LSTM on bytes. Divided, each rank has some of the layers, and ranks work on different
// time chunks concurrently: the (layer, time) grid is walked along its anti-diagonals (Wu et al.
// 2016). The order of the sums is that of a loop over layers and pieces.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "trainer/common/random.h"
#include "trainer/models/handover.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct Embedding : Layer {
  explicit Embedding(const Shape& shape) {
    words = register_module("words", nn::Embedding(shape.vocabulary, shape.width));
  }
  Tensor forward(const Tensor& tokens, Stash&) override { return words(tokens); }
  nn::Embedding words{nullptr};
};

struct Recurrent : Layer {
  Recurrent(int64_t width, double dropout, int64_t piece) : dropout(dropout), piece(piece) {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(width, width).batch_first(true)));
  }
  void seed(uint64_t random, size_t number) override { dropout_seed = mixed(random, number); }
  // The dropout mask for an output of this size; undefined if there is no dropout.
  Tensor mask(std::vector<int64_t> sizes) const {
    if (dropout == 0 || !is_training()) return {};
    const auto options = lstm->parameters()[0].options().requires_grad(false);
    return torch::empty(sizes, options.device(torch::kCPU))
        .bernoulli_(1 - dropout, at::detail::createCPUGenerator(dropout_seed))
        .div_(1 - dropout)
        .to(options.device());
  }
  // Runs a time chunk from a state, which it updates.
  struct State {
    Tensor hidden, cell;
  };
  Tensor advance(const Tensor& x, State& state) {
    if (!state.hidden.defined())
      state.hidden = state.cell =
          torch::zeros({1, x.size(0), x.size(2)}, x.options().requires_grad(false));
    auto [y, next] = lstm->forward(x, std::tuple(state.hidden, state.cell));
    std::tie(state.hidden, state.cell) = next;
    return y;
  }
  Tensor forward(const Tensor& x, Stash&) override {
    State state;
    std::vector<Tensor> pieces;
    for (const Tensor& y : x.split(piece, 1)) pieces.push_back(advance(y, state));
    const Tensor y = torch::cat(pieces, 1), kept = mask(y.sizes().vec());
    return kept.defined() ? y * kept : y;
  }
  double dropout;
  int64_t piece;
  uint64_t dropout_seed = 0;
  nn::LSTM lstm{nullptr};
};

struct Head : Layer {
  explicit Head(const Shape& shape) {
    out = register_module("out", Linear(shape.width, shape.vocabulary));
  }
  Tensor forward(const Tensor& x, Stash&) override { return out(x); }
  Linear out{nullptr};
};

// A rank's layers, time chunk by time chunk. The previous rank has the layers before, the next rank
// those after.
struct Wavefront : Layer {
  Wavefront(const Shape& shape, const Split& split)
      : width(shape.width),
        vocabulary(shape.vocabulary),
        split(split),
        own(part_of(shape.layers, split.group.size, split.group.rank)) {}
  void seed(uint64_t random, size_t) override {
    for (size_t i = 0; i < recurrents.size(); ++i)
      recurrents[i]->seed(random, size_t(own.begin) + i + 1);  // after the embedding
  }
  Tensor forward(const Tensor& tokens, Stash& stash) override {
    std::vector<Recurrent::State> states(recurrents.size());
    std::vector<Tensor> masks, last;
    for (const auto& layer : recurrents)
      masks.push_back(layer->mask({tokens.size(0), tokens.size(1), width}));
    int64_t begin = 0;  // of the time chunk
    Handover handover(split.group, recurrents[0]->parameters()[0]);
    for (const Tensor& piece : tokens.split(recurrents[0]->piece, 1)) {
      Tensor x = embedding ? embedding->forward(piece, stash)
                           : handover.get({piece.size(0), piece.size(1), width});
      for (size_t i = 0; i < recurrents.size(); ++i) {
        x = recurrents[i]->advance(x, states[i]);
        if (masks[i].defined()) x = x * masks[i].narrow(1, begin, piece.size(1));
      }
      begin += piece.size(1);
      if (head)
        last.push_back(x);
      else
        handover.put(x);
    }
    if (head) return head->forward(torch::cat(last, 1), stash);
    return handover.zeros({tokens.size(0), tokens.size(1), vocabulary});
  }
  int64_t width, vocabulary;
  const Split& split;
  Span own;                              // layers
  std::shared_ptr<Embedding> embedding;  // of the first rank
  std::vector<std::shared_ptr<Recurrent>> recurrents;
  std::shared_ptr<Head> head;  // of the last one
};

struct Rnn : HandoverModel {
  Rnn(const Shape& shape, const Split& split) : HandoverModel(shape.vocabulary, split.group) {
    const Group& group = split.group;
    const auto wave = std::make_shared<Wavefront>(shape, split);
    // Every rank draws the parameters of all layers, and keeps its own.
    const auto embedding = std::make_shared<Embedding>(shape);
    if (group.rank == 0) wave->embedding = hold("embedding", embedding);
    // Dropout between the recurrent layers.
    for (int64_t i = 0; i < shape.layers; ++i) {
      const auto layer = std::make_shared<Recurrent>(
          shape.width, i + 1 < shape.layers ? shape.dropout : 0, split.chunk);
      if (i >= wave->own.begin && i < wave->own.end)
        wave->recurrents.push_back(hold("recurrent" + std::to_string(i), layer));
    }
    const auto head = std::make_shared<Head>(shape);
    if (group.rank + 1 == group.size) wave->head = hold("head", head);
    if (group.size > 1) layers = {wave};
  }
};

const Registered rnn(
    {.name = "rnn",
     .sizes = {{.size = "tiny", .layers = 2, .width = 128, .context = 64, .vocabulary = 256}},
     .continues_texts = true,
     .has_dropout = true,
     .layers = [](const Shape& shape, int tp) { return tp > 1 ? 1 : shape.layers + 2; },
     .divisible =
         [](const Shape& shape) {
           return Divisible{shape.layers, "recurrent layers"};
         },
     .make = made<Rnn>});

}  // namespace
}  // namespace tutti::train
