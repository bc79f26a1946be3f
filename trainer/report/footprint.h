// What each rank will hold, known before there are ranks.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/models/replica.h"
#include "trainer/parallel/mesh.h"

namespace tutti::train {

// Elements.
struct Footprint {
  size_t parameters = 0;
  size_t state = 0;  // of the optimizer
};

// Of each rank along --tp, the layout of all layers.
std::vector<std::vector<Parameter>> divided_layouts(const Options& options, const Shape& shape,
                                                    const Data& data);

// By rank. `layouts`: as above; `stages`: the layers of each stage, none where there are no stages.
std::vector<Footprint> footprints_of(const Options& options, const Mesh& mesh,
                                     const std::vector<std::vector<Parameter>>& layouts,
                                     const std::vector<std::vector<std::string>>& stages);

}  // namespace tutti::train
