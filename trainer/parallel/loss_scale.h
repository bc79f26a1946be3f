// The factor of fp16's losses (Micikevicius et al. 2018), by the rule of PyTorch's GradScaler:
// halved when a gradient overflows, whose step is left out, and doubled after 2000 steps without.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "trainer/common/error.h"
#include "trainer/common/options.h"

namespace tutti::train {

struct LossScale {
  static constexpr int64_t growth_interval = 2000;  // steps
  double scale = 65536;                             // a power of two: unscaling rounds nothing
  bool dynamic = true;
  int64_t good = 0;     // steps since the last overflow, or since the scale was doubled
  int64_t skipped = 0;  // steps left out, of the whole run

  // After each step; on all ranks alike if `overflow` is.
  void update(bool overflow) {
    if (overflow) {
      ++skipped;
      good = 0;
      if (dynamic && scale > 0x1p-126) scale /= 2;
    } else if (++good == growth_interval) {
      good = 0;
      if (dynamic && scale < 0x1p127) scale *= 2;
    }
  }

  // As a run begins; none where losses are not scaled.
  static std::optional<LossScale> of(const Options& o) {
    if (o.precision != "fp16" && o.loss_scale.empty()) return {};
    return parsed(o.loss_scale);
  }

  // What parsed() reads: [dynamic:]SCALE:GOOD:SKIPPED.
  std::string text() const {
    return fmt::format("{}{}:{}:{}", dynamic ? "dynamic:" : "", scale, good, skipped);
  }
  // Of --loss-scale, or of a checkpoint. Throws BadInput.
  static LossScale parsed(const std::string& text) {
    LossScale made;
    if (text.empty() || text == "dynamic") return made;
    made.dynamic = text.starts_with("dynamic:");
    const std::string rest = text.substr(made.dynamic ? 8 : 0);
    long long good = 0, skipped = 0;
    int one = 0, all = 0, exponent = 0;
    std::sscanf(rest.c_str(), "%lf%n:%lld:%lld%n", &made.scale, &one, &good, &skipped, &all);
    const bool whole =
        one > 0 && std::max(one, all) == int(rest.size()) && good >= 0 && skipped >= 0;
    if (!whole || std::frexp(made.scale, &exponent) != 0.5 || std::abs(exponent) > 128)
      throw BadInput(fmt::format(
          "--loss-scale {}: is a power of two, dynamic, or dynamic: and a power of two", text));
    made.good = good;
    made.skipped = skipped;
    return made;
  }
};

}  // namespace tutti::train
