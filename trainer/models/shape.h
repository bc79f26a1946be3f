// The families of models, and the sizes of a model from its name and the options that override
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

struct Model;

struct Shape {
  std::string name;  // of the family
  std::string size;
  int64_t layers = 0;
  int64_t width = 0;  // of quadratic: how many parameters
  int64_t heads = 0;
  int64_t context = 0;
  int64_t vocabulary = 0;
  double dropout = 0;
  std::string dtype = "float32";   // of parameters and gradients
  std::string precision = "full";  // of forward and backward: dtype's, bf16 or fp16
};

// What --tp can divide a model into: 2, "halves".
struct Divisible {
  int64_t most = 1;
  const char* what = "layer";
};

// A family of models, as the file that has its layers registers it. The command line, the plan and
// pipelines read here what they need to know of a model.
struct Family {
  std::string name;  // as in --model
  enum class Source { text, pictures, noise } learns_from = Source::text;
  // As --model NAME:SIZE names them, the first one where no size is named; what the model has not
  // is 0. Or SIZE is a number, the width.
  std::vector<Shape> sizes;
  bool size_is_width = false;
  bool continues_texts = false;
  bool has_dropout = false;
  int64_t steps = 200;  // of a run that is not told how many
  // The length of its list of layers when `tp` ranks divide them.
  int64_t (*layers)(const Shape& shape, int tp) = [](const Shape& shape, int) {
    return shape.layers + 2;  // one before, one after
  };
  Divisible (*divisible)(const Shape& shape) = [](const Shape&) { return Divisible{}; };
  // The parameters are drawn from torch's generator. The split outlives the model.
  std::shared_ptr<Model> (*make)(const Shape& shape, const Data& data,
                                 const Split& split) = nullptr;
};

// Of a model with layers whose values --tp divides.
inline Divisible values_of(const Shape& shape) { return {shape.width, "values"}; }

// const Registered mlp({.name = "mlp", ...}); makes a family known to the program.
struct Registered {
  explicit Registered(Family family);
};

// The names of the families for which `like` holds, sorted.
std::vector<std::string> model_names(bool (*like)(const Family&) = [](const Family&) {
  return true;
});
// Throws BadInput where there is no such family.
const Family& family_of(const std::string& name);

// The length of the model's list of layers, divided among `tp` ranks.
int64_t layers_of(const Shape& shape, int tp);

// Throws BadInput for unknown sizes and for sizes that do not go together, with the data too.
Shape shape_of(const Options& options);

}  // namespace tutti::train
