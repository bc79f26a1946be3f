// What --clip does.
#pragma once

#include <cmath>
#include <span>

#include "trainer/device/vectors.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// `squared`: the squared length of the whole gradient, of which `part` is a part.
template <class Real>
void clip_gradient(const Device& device, std::span<Real> part, double squared, double most,
                   StepFigures& figures) {
  figures.gradient = std::sqrt(squared);
  figures.overflow = !std::isfinite(squared);
  if (figures.overflow || figures.gradient <= most) return;
  Vectors<Real>::scale(device, part, Real(most / figures.gradient));
}

}  // namespace tutti::train
