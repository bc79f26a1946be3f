// Sums of squares over a whole model of which ranks hold parts. A part that several ranks hold is
// counted by one of them; the bits do not depend on which rank holds which part.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "trainer/common/call.h"
#include "trainer/device/vectors.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

// Calls body() with the values in `vector`, which is that of `range` of the flat vector, of each
// part of it that this rank counts.
template <class Real, class Body>
void for_counted(const Layout& layout, Range range, std::span<Real> vector, Body&& body) {
  for (const Parameter& p : layout)
    if (const Range part = overlap(range, p.range()); p.counted && part.size() > 0)
      body(slice(vector, {part.begin - range.begin, part.end - range.begin}));
}

class GradientNorm {
 public:
  explicit GradientNorm(const Device& device = {}) : device_(device) {}
  // Adds the gradient of `range`, on the device.
  template <class Real>
  void add(const Layout& layout, Range range, std::span<const Real> gradient) {
    for_counted(layout, range, gradient, [&](std::span<const Real> part) {
      Vectors<Real>::squares_of(device_, part, squares_);
      deposit_all<tutti_binned_float64, double>(sum_, squares_);
    });
  }
  // Collective over ranks that have added different parts: the squared length of the whole, not
  // finite if a gradient overflowed on any rank.
  double squared(const communicator& comm) {
    check(tutti_allreduce(TUTTI_IN_PLACE, &sum_, 1, TUTTI_BINNED_FLOAT64, TUTTI_SUM, comm.get()),
          comm);
    double out = 0;
    finish<tutti_binned_float64, double>(std::span(&sum_, 1), std::span(&out, 1));
    return out;
  }

 private:
  Device device_;
  tutti_binned_float64 sum_{};
  std::vector<double> squares_;
};

// Collective over the ranks that divide layers: sums lamb's norms to those of whole layers.
template <class Real>
void sum_layer_norms(BasicOptimizer<Real>& optimizer, const Layout& layout,
                     const communicator& comm) {
  const auto norms = optimizer.norms();
  for (size_t i = 0; i < layout.size(); ++i)
    if (!layout[i].counted) norms[2 * i] = norms[2 * i + 1] = {};
  check(tutti_allreduce(TUTTI_IN_PLACE, norms.data(), norms.size(), TUTTI_BINNED_FLOAT64, TUTTI_SUM,
                        comm.get()),
        comm);
}

}  // namespace tutti::train
