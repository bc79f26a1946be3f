// Fits the model that algorithms are chosen by (lib/select) to measured times.
#pragma once

#include <string>
#include <vector>

#include "lib/select/select.h"

namespace tutti::tune {

struct Measured {
  Collective collective = Collective::allreduce;
  uint64_t count = 0;  // elements, of a vector or a block, a power of two
  uint32_t element_size = 4;
  const Algorithm* algorithm = nullptr;
  double us = 0;
};

// How far choices are from the best: the geometric mean over all cells of time of the choice / time
// of the fastest.
double regret(const Capabilities& capabilities, const std::vector<Measured>& times);

// Changes `fields` of capabilities->tuning, as far as that makes choices better or predictions
// nearer; all have defaults above 0. One that the times do not depend on stays near its default.
// The same on every rank that has the same times.
void fit(const std::vector<Field>& fields, const std::vector<Measured>& times,
         Capabilities* capabilities);

}  // namespace tutti::tune
