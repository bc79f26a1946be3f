// The sizes of a model, from its name and the options that override them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/parallel/strips.h"

namespace tutti::train {

struct Shape {
  std::string name;  // gpt, rnn, seq2seq, mlp, cnn, quadratic
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

// The names of the models.
std::vector<std::string> model_names();

// The length of the model's list of layers (models/), divided among `tp` ranks.
int64_t layers_of(const Shape& shape, int tp);

// Throws BadInput for unknown sizes and for sizes that do not go together, with the data too.
Shape shape_of(const Options& options);

// The windows that a cnn moves over pictures of this height.
std::vector<Place> windows_of(const Shape& shape, int64_t height);

}  // namespace tutti::train
