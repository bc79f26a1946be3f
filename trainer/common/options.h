// The options of a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/common/stage_widths.h"

namespace tutti::train {

struct Options {
#define OPTION(type, field, value, ...) type field = value;
#define GROUP(name)
#define WAYS()
#include "trainer/common/options.inc"
#undef OPTION
#undef GROUP
#undef WAYS

  // Options that only some ways to agree have (sync/ways.h), by name.
  using Value = std::variant<int64_t, double, bool>;
  std::map<std::string, Value> of_ways;
  template <class T>
  T of_way(const std::string& name) const {
    return std::get<T>(of_ways.at(name));
  }

  bool has_servers() const { return servers > 0; }
  StageWidths widths() const { return StageWidths::parsed(stage_widths, pp); }
  int workers() const { return dp * widths().ranks() * tp; }
  // Whether sums over workers are in the canonical tree. Sums over replicas of a stage always are.
  bool canonical() const { return level == "canonical" || widths().widest() > 1; }
  // Bytes of one element of a parameter or a gradient.
  size_t element_bytes() const { return dtype == "float64" ? 8 : 4; }
  // Whether the model computes with rounded copies of the parameters.
  bool mixed() const { return precision != "full"; }
  // Bytes of one element of what layers hand each other.
  size_t computed_bytes() const { return mixed() ? 2 : element_bytes(); }
  int world() const { return workers() + servers; }
  bool pipelined() const { return !schedule.empty(); }
  // As --stages lists them.
  std::vector<size_t> stage_layers() const {
    const auto counts = numbers_of("--stages", stages, "is no number of layers",
                                   [](long long n) { return n >= 1 && n <= 1 << 20; });
    return {counts.begin(), counts.end()};
  }
  std::string model_name() const { return model.substr(0, model.find(':')); }
  std::string model_size() const {
    const size_t colon = model.find(':');
    return colon == std::string::npos ? "" : model.substr(colon + 1);
  }
};

}  // namespace tutti::train
