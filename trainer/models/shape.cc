#include "trainer/models/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// The sizes of each model; the first one is meant where none is named.
const Shape shapes[] = {
    // layers, width, heads, context, vocabulary
    {"gpt", "tiny", 4, 128, 4, 128, 256},
    {"gpt", "small", 6, 384, 6, 256, 256},
    {"gpt", "124m", 12, 768, 12, 1024, 50257},
    {"rnn", "tiny", 2, 128, 0, 64, 256},
    {"seq2seq", "tiny", 1, 128, 0, 64, 256},
    {"mlp", "tiny", 2, 128},
    {"cnn", "tiny", 3, 16},
    {"cnn", "inception", 3, 16},
    {"cnn", "resnet50", 16, 64},
    {"quadratic", "", 1, 1000}};

Shape sized(const std::string& name, const std::string& size) {
  if (name == "quadratic" && !size.empty()) {
    char* end = nullptr;
    const long long count = std::strtoll(size.c_str(), &end, 10);
    if (*end || count < 1 || count > 2'000'000'000)
      throw BadInput(fmt::format("--model quadratic:{}: that is no number of parameters", size));
    return {name, size, 1, count};
  }
  std::vector<std::string> allowed;
  for (const Shape& shape : shapes) {
    if (shape.name != name) continue;
    if (size.empty() || size == shape.size) return shape;
    allowed.push_back(shape.size);
  }
  throw BadInput(
      fmt::format("--model {}:{}: allowed are {}", name, size, fmt::join(allowed, ", ")));
}

// Whether --tp can divide the layers.
void check_division(const Options& o, const Shape& shape) {
  const auto only = [&](bool asked, const char* option, bool fits, const char* needs) {
    if (asked && !fits) throw BadInput(fmt::format("{} needs {}", option, needs));
  };
  only(o.sequence_parallel, "--sequence-parallel", shape.name == "gpt" && o.tp > 1,
       "--model gpt and --tp of 2 or more");
  only(o.conv_split != "output", "--conv-split",
       shape.name == "cnn" && shape.size != "inception" && o.tp > 1,
       "--model cnn (without parallel branches) and --tp of 2 or more");
  only(o.rnn_chunk.has_value(), "--rnn-chunk", shape.name == "rnn", "--model rnn");
  if (o.tp == 1) return;
  const auto most = [&](int64_t parts, const char* what) {
    if (o.tp > parts)
      throw BadInput(
          fmt::format("--tp {}: the model {} has {} {} to divide", o.tp, o.model, parts, what));
  };
  if (shape.name == "quadratic") most(1, "layer");
  if (shape.name == "rnn") most(shape.layers, "recurrent layers");
  if (shape.name == "seq2seq") most(2, "halves, an encoder and a decoder,");
  if (shape.size == "inception") most(4, "branches a layer");
  only((shape.name == "rnn" || shape.name == "seq2seq") && o.pp == 1 && o.pipelined(),
       "--schedule, or --recompute,", false,
       "--tp 1 with a model whose ranks have different layers");
  const auto divides = [&](const char* option, int64_t size) {
    if (size % o.tp != 0)
      throw BadInput(
          fmt::format("{} {} cannot be divided among --tp {} ranks", option, size, o.tp));
  };
  if (shape.heads > 0) divides("--heads", shape.heads);
  if (o.sequence_parallel) divides("--context", shape.context);
  if (shape.width < o.tp)
    throw BadInput(
        fmt::format("--width {} cannot be divided among --tp {} ranks", shape.width, o.tp));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Shape& shape : shapes)
    if (names.empty() || names.back() != shape.name) names.push_back(shape.name);
  return names;
}

int64_t layers_of(const Shape& shape, int tp) {
  if (shape.name == "quadratic" || shape.name == "seq2seq") return 1;
  if (shape.name == "rnn" && tp > 1) return 1;  // ranks have layers of their own
  // The output layer comes on top of `layers`; all but mlp also have a layer before them.
  return shape.layers + (shape.name == "mlp" ? 1 : 2);
}

Shape shape_of(const Options& options) {
  Shape shape = sized(options.model_name(), options.model_size());
  const auto replace = [&](const char* option, const std::optional<int64_t>& asked, int64_t& own) {
    if (!asked) return;
    if (own == 0 || shape.name == "quadratic" || shape.size == "resnet50")
      throw BadInput(
          fmt::format("{}: the model {} has no such size to change", option, options.model));
    own = *asked;
  };
  replace("--layers", options.layers, shape.layers);
  replace("--width", options.width, shape.width);
  replace("--heads", options.heads, shape.heads);
  replace("--context", options.context, shape.context);
  shape.dropout = options.dropout;
  shape.dtype = options.dtype;
  shape.precision = options.precision;
  if (shape.heads > 0 && shape.width % shape.heads != 0)
    throw BadInput(fmt::format("--heads {} does not divide --width {}", shape.heads, shape.width));
  if (shape.name == "cnn" && shape.size != "resnet50" && shape.width % 4 != 0)
    throw BadInput(fmt::format("--width {} of a cnn is no multiple of 4", shape.width));
  if (shape.name == "seq2seq" && shape.context < 2)
    throw BadInput(fmt::format("--context {} has no two halves", shape.context));
  if (options.dropout > 0 && shape.name != "gpt" && shape.name != "rnn")
    throw BadInput(fmt::format("--dropout: the model {} has none", options.model));
  const bool pictures = options.data == "digits" || options.data.starts_with("idx:");
  const bool text = options.data.starts_with("text:");
  const bool known = pictures || text || options.data == "noise";
  if (known &&
      ((shape.vocabulary > 0) != text || (shape.name == "quadratic") != (options.data == "noise")))
    throw BadInput(
        fmt::format("the model {} does not learn from --data {}", options.model, options.data));
  check_division(options, shape);
  return shape;
}

std::vector<Place> windows_of(const Shape& shape, int64_t height) {
  std::vector<Place> all;
  const auto add = [&](const std::string& name, int64_t rows, const Window& window) {
    all.push_back({name, rows, window});
    return rows_after(rows, window);
  };
  const bool large = shape.size == "resnet50";
  height = add("stem", height, large ? Window{7, 2, 3} : Window{3, 1, 1});
  if (large) height = add("the pooling after it", height, {3, 2, 1});
  const int64_t stages = large ? 4 : shape.layers;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const std::string name = "stage" + std::to_string(stage);
    if (stage > 0) add(name + " (its skip connection)", height, {1, 2, 0});
    height = add(name, height, {3, stage > 0 ? 2 : 1, 1});
    add(name, height, {3, 1, 1});
  }
  return all;
}

}  // namespace tutti::train
