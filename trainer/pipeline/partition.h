// Where a model is cut into the parts of a pipeline, and into how many micro-batches a step. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/parallel/layout.h"
#include "trainer/pipeline/schedule.h"

namespace tutti::train {

// What a model's layers are like, of one sample or of several.
struct ModelFacts {
  struct Layer {
    std::string name;
    std::vector<int64_t> output;  // sizes; the first is the number of samples
    double seconds = 0;           // forward and backward; 0: not measured
  };
  // A tensor that one layer hands to a later one past those in between.
  struct Skip {
    std::string name;
    size_t from = 0, to = 0;  // layers
    std::vector<int64_t> sizes;
    bool weight = false;  // a parameter: the same for all samples
  };
  std::vector<Layer> layers;
  std::vector<Skip> skips;
};

// `counts` layers each.
std::vector<LayerRange> cut_layers(const std::vector<size_t>& counts);
// Contiguous parts, none empty, of which part i is done by widths[i] ranks by turns, and the
// costliest costs a rank as little as possible: dynamic programming.
std::vector<LayerRange> balanced_cut(const std::vector<double>& costs,
                                     const std::vector<int>& widths);

// A tensor on its way from one part to another.
struct Port {
  Connection connection;
  std::string name;            // of a skip; empty: what the layers pass on
  std::vector<int64_t> sizes;  // of one sample, or of a weight
  bool weight = false;
};
// All of a model that is cut so, part i on widths[i] ranks. Skips go straight from the part that
// makes them to the one that takes them; without `portals` through all in between.
std::vector<Port> ports_of(const ModelFacts& facts, const std::vector<LayerRange>& parts,
                           const std::vector<int>& widths, bool portals);
std::vector<Connection> connections_of(const std::vector<Port>& ports);

// The time of a micro-batch of n samples in the slowest stage is fixed + each * n seconds: m such
// micro-batches of `samples` in all take (m + stages - 1) (fixed + each * samples / m).
struct StageTime {
  double fixed = 0, each = 0;
};
StageTime fit(double samples_a, double seconds_a, double samples_b, double seconds_b);
// Numbers of micro-batches worth trying: those next to the model's optimum, multiples of
// `multiple`, from 1 to `samples`, ascending.
std::vector<int> promising_micro_batches(const StageTime& time, int stages, int64_t samples,
                                         int multiple);

}  // namespace tutti::train
