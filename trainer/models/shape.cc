#include "trainer/models/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

Shape sized(const Family& family, const Options& o) {
  const std::string size = o.model_size();
  if (family.size_is_width && !size.empty()) {
    char* end = nullptr;
    const long long count = std::strtoll(size.c_str(), &end, 10);
    if (*end || count < 1 || count > 2'000'000'000)
      throw BadInput(fmt::format("--model {}: that is no number of parameters", o.model));
    Shape shape = family.sizes.front();
    shape.size = size;
    shape.width = count;
    return shape;
  }
  std::vector<std::string> allowed;
  for (const Shape& shape : family.sizes) {
    if (size.empty() || size == shape.size) return shape;
    allowed.push_back(shape.size);
  }
  throw BadInput(fmt::format("--model {}: allowed are {}", o.model, fmt::join(allowed, ", ")));
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
  if (const Divisible into = family_of(shape.name).divisible(shape); o.tp > into.most)
    throw BadInput(fmt::format("--tp {}: the model {} has {} {} to divide", o.tp, o.model,
                               into.most, into.what));
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
}

}  // namespace

Registered::Registered(Family family) {
  for (Shape& shape : family.sizes) shape.name = family.name;
  families().push_back(std::move(family));
}

std::vector<std::string> model_names(bool (*like)(const Family&)) {
  std::vector<std::string> names;
  for (const Family& family : families())
    if (like(family)) names.push_back(family.name);
  std::sort(names.begin(), names.end());
  return names;
}

const Family& family_of(const std::string& name) {
  for (const Family& family : families())
    if (family.name == name) return family;
  throw BadInput(fmt::format("--model {}: allowed are {}", name, fmt::join(model_names(), ", ")));
}

int64_t layers_of(const Shape& shape, int tp) { return family_of(shape.name).layers(shape, tp); }

Shape shape_of(const Options& options) {
  const Family& family = family_of(options.model_name());
  Shape shape = sized(family, options);
  const auto replace = [&](const char* option, const std::optional<int64_t>& asked, int64_t& own) {
    if (!asked) return;
    if (own == 0 || family.size_is_width || shape.size == "resnet50")
      throw BadInput(
          fmt::format("{}: the model {} has no such size to change", option, options.model));
    own = *asked;
  };
  replace("--layers", options.layers, shape.layers);
  replace("--width", options.width, shape.width);
  replace("--heads", options.heads, shape.heads);
  replace("--context", options.context, shape.context);
  const auto tokens = int64_t(tokens_of(options.tokens));
  if (tokens > int64_t(Vocabulary::bytes) && family.learns_from != Family::Source::text)
    throw BadInput(fmt::format("--tokens: the model {} learns from no text", options.model));
  if (shape.vocabulary > 0) shape.vocabulary = std::max(shape.vocabulary, tokens);
  shape.dropout = options.dropout;
  shape.dtype = options.dtype;
  shape.precision = options.precision;
  if (shape.heads > 0 && shape.width % shape.heads != 0)
    throw BadInput(fmt::format("--heads {} does not divide --width {}", shape.heads, shape.width));
  if (shape.name == "cnn" && shape.size != "resnet50" && shape.width % 4 != 0)
    throw BadInput(fmt::format("--width {} of a cnn is no multiple of 4", shape.width));
  if (shape.name == "seq2seq" && shape.context < 2)
    throw BadInput(fmt::format("--context {} has no two halves", shape.context));
  if (options.dropout > 0 && !family.has_dropout)
    throw BadInput(fmt::format("--dropout: the model {} has none", options.model));
  const std::string kind = options.data.substr(0, options.data.find(':'));
  const std::pair<const char*, Family::Source> kinds[] = {{"text", Family::Source::text},
                                                          {"digits", Family::Source::pictures},
                                                          {"idx", Family::Source::pictures},
                                                          {"noise", Family::Source::noise}};
  for (const auto& [name, learnt] : kinds)
    if (kind == name && learnt != family.learns_from)
      throw BadInput(
          fmt::format("the model {} does not learn from --data {}", options.model, options.data));
  check_division(options, shape);
  return shape;
}

}  // namespace tutti::train
