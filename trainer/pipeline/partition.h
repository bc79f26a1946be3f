// Where a model is cut into the parts of a pipeline, and into how many micro-batches a step is cut.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/parallel/split.h"
#include "trainer/pipeline/schedule.h"

namespace tutti::train {

// The sizes and times of a model's layers, for one sample or for several.
struct ModelFacts {
  struct Layer {
    std::string name;
    std::vector<int64_t> output;  // sizes; the first is the number of samples
    double seconds = 0;           // forward and backward; 0: not measured
  };
  // A skip connection: a tensor that one layer hands to a later one, bypassing those in between.
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
std::vector<Range> cut_layers(const std::vector<size_t>& counts);
// Contiguous parts, none empty. widths[i] ranks take turns with part i; the cost per rank of the
// costliest part is the least possible. By dynamic programming.
std::vector<Range> balanced_cut(const std::vector<double>& costs, const std::vector<int>& widths);

// All ports of a model cut into `parts`, part i on widths[i] ranks. With `portals` skips go
// directly from the part that makes them to the one that takes them, else through all parts in
// between.
std::vector<Port> ports_of(const ModelFacts& facts, const std::vector<Range>& parts,
                           const std::vector<int>& widths, bool portals);

// The time of a micro-batch of n samples in the slowest stage is fixed + each * n seconds: m such
// micro-batches of `samples` in all take (m + stages - 1) (fixed + each * samples / m).
struct StageTime {
  double fixed = 0, each = 0;
};
StageTime fit(double samples_a, double seconds_a, double samples_b, double seconds_b);
// Numbers of micro-batches worth trying: those around the optimum of that model, multiples of
// `multiple`, from 1 to `samples`, ascending.
std::vector<int> promising_micro_batches(const StageTime& time, int stages, int64_t samples,
                                         int multiple);

}  // namespace tutti::train
