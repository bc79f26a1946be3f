// Sutskever et al. 2014: an encoder reads the first half of a text; from its state a decoder writes
// the second half. Divided, each is on a rank of its own; samples are handed over in pieces, so
// that both work concurrently. Half of the bytes are predicted; the loss counts each of them twice.
#include <algorithm>
#include <tuple>

#include "trainer/models/handover.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t pieces = 4;

struct Reader : Layer {
  explicit Reader(const Shape& shape) {
    words = register_module("words", nn::Embedding(shape.vocabulary, shape.width));
    lstm = register_module(
        "lstm",
        nn::LSTM(
            nn::LSTMOptions(shape.width, shape.width).num_layers(shape.layers).batch_first(true)));
  }
  Tensor forward(const Tensor& x, Stash&) override { return x; }
  nn::Embedding words{nullptr};
  nn::LSTM lstm{nullptr};
};

struct Encoder : Reader {
  using Reader::Reader;
  // Hidden and cell state after the last byte.
  Tensor remember(const Tensor& tokens) {
    const auto [hidden, cell] = std::get<1>(lstm->forward(words(tokens)));
    return torch::stack({hidden, cell});
  }
};

struct Decoder : Reader {
  explicit Decoder(const Shape& shape) : Reader(shape) {
    out = register_module("out", Linear(shape.width, shape.vocabulary));
  }
  Tensor write(const Tensor& tokens, const Tensor& memory) {
    return out(std::get<0>(lstm->forward(words(tokens), std::tuple(memory[0], memory[1]))));
  }
  Linear out{nullptr};
};

int64_t half(int64_t length) { return length / 2; }

struct Both : Layer {
  Both(const Shape& shape, const Split& split) : shape(shape), split(split) {}
  Tensor forward(const Tensor& tokens, Stash&) override {
    const int64_t read = half(tokens.size(1)), written = tokens.size(1) - read;
    std::vector<Tensor> logits;
    Handover handover(split.group, (encoder ? encoder->parameters() : decoder->parameters())[0]);
    for (const Tensor& piece : tokens.chunk(pieces, 0)) {
      const Tensor memory = encoder ? encoder->remember(piece.narrow(1, 0, read))
                                    : handover.get({2, shape.layers, piece.size(0), shape.width});
      if (decoder)
        logits.push_back(decoder->write(piece.narrow(1, read, written), memory));
      else
        handover.put(memory);
    }
    if (decoder) return torch::cat(logits, 0);
    return handover.zeros({tokens.size(0), written, shape.vocabulary});
  }
  Shape shape;
  const Split& split;
  std::shared_ptr<Encoder> encoder;
  std::shared_ptr<Decoder> decoder;
};

struct Seq2Seq : HandoverModel {
  Seq2Seq(const Shape& shape, const Split& split) : HandoverModel(shape.vocabulary, split.group) {
    const auto both = std::make_shared<Both>(shape, split);
    const auto encoder = std::make_shared<Encoder>(shape);
    const auto decoder = std::make_shared<Decoder>(shape);
    if (split.group.rank == 0) both->encoder = hold("encoder", encoder);
    if (split.group.rank + 1 == split.group.size) both->decoder = hold("decoder", decoder);
    layers = {both};
  }
  Tensor last_loss(const Tensor& output, const Batch& batch) const override {
    const int64_t length = int64_t(batch.tokens.size()) / batch.samples - 1;
    const int64_t read = half(length), written = length - read;
    const Tensor targets = torch::tensor(batch.tokens, torch::kInt64)
                               .to(device)
                               .view({batch.samples, length + 1})
                               .narrow(1, read + 1, written);
    return divided_cross_entropy(output.flatten(0, 1), targets.flatten(), classes, group) *
           (double(length) / double(written));
  }
};

const Registered seq2seq(
    {.name = "seq2seq",
     .sizes = {{.size = "tiny", .layers = 1, .width = 128, .context = 64, .vocabulary = 256}},
     .layers = [](const Shape&, int) { return int64_t{1}; },
     .divisible =
         [](const Shape&) {
           return Divisible{2, "halves, an encoder and a decoder,"};
         },
     .make = made<Seq2Seq>});

}  // namespace
}  // namespace tutti::train
