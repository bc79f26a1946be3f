// Stacked LSTM on bytes. Divided, each rank has some of the layers, and ranks work at once on
// different pieces of time: the (layer, time) grid is walked along its anti-diagonals (Wu et al.
// 2016). The order of the sums is that of a loop over layers and pieces.
#include <algorithm>

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
    draws = dropout > 0;
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(width, width).batch_first(true)));
  }
  // A piece of time, from a state that it moves on.
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
    return torch::dropout(torch::cat(pieces, 1), dropout, is_training());
  }
  double dropout;
  int64_t piece;
  nn::LSTM lstm{nullptr};
};

struct Head : Layer {
  explicit Head(const Shape& shape) {
    out = register_module("out", Linear(shape.width, shape.vocabulary));
  }
  Tensor forward(const Tensor& x, Stash&) override { return out(x); }
  Linear out{nullptr};
};

// A rank's layers, piece by piece: those before have the rank before, those after the next one.
struct Wavefront : Layer {
  Wavefront(const Shape& shape, const Split& split)
      : width(shape.width), vocabulary(shape.vocabulary), split(split) {}
  Tensor forward(const Tensor& tokens, Stash& stash) override {
    const Group& group = split.group;
    std::vector<Recurrent::State> states(recurrents.size());
    std::vector<Tensor> last;
    Tensor zero;  // all that was sent
    const Tensor before =
        torch::zeros({}, recurrents[0]->parameters()[0].options()).set_requires_grad(true);
    for (const Tensor& piece : tokens.split(recurrents[0]->piece, 1)) {
      Tensor x =
          embedding ? embedding->forward(piece, stash)
                    : receive(before, {piece.size(0), piece.size(1), width}, group.rank - 1, group);
      for (size_t i = 0; i < recurrents.size(); ++i) x = recurrents[i]->advance(x, states[i]);
      if (head) {
        last.push_back(x);
      } else {
        const Tensor sent = send(x, group.rank + 1, group);
        zero = zero.defined() ? zero + sent : sent;
      }
    }
    if (head) return head->forward(torch::cat(last, 1), stash);
    return zero.expand({tokens.size(0), tokens.size(1), vocabulary});
  }
  int64_t width, vocabulary;
  const Split& split;
  std::shared_ptr<Embedding> embedding;  // of the first rank
  std::vector<std::shared_ptr<Recurrent>> recurrents;
  std::shared_ptr<Head> head;  // of the last one
};

struct Rnn : HandoverModel {
  Rnn(const Shape& shape, const Split& split) : HandoverModel(shape.vocabulary, split.group) {
    const Group& group = split.group;
    const auto wave = std::make_shared<Wavefront>(shape, split);
    const Span own = part_of(shape.layers, group.size, group.rank);
    // Every rank draws the parameters of all layers, and keeps its own.
    const auto embedding = std::make_shared<Embedding>(shape);
    if (group.rank == 0) wave->embedding = hold("embedding", embedding);
    // Dropout between the recurrent layers.
    for (int64_t i = 0; i < shape.layers; ++i) {
      const auto layer = std::make_shared<Recurrent>(
          shape.width, i + 1 < shape.layers ? shape.dropout : 0, split.chunk);
      if (i >= own.begin && i < own.end)
        wave->recurrents.push_back(hold("recurrent" + std::to_string(i), layer));
    }
    const auto head = std::make_shared<Head>(shape);
    if (group.rank + 1 == group.size) wave->head = hold("head", head);
    if (group.size > 1) layers = {wave};
  }
};

}  // namespace

std::shared_ptr<Model> make_rnn(const Shape& shape, const Split& split) {
  return std::make_shared<Rnn>(shape, split);
}

}  // namespace tutti::train
