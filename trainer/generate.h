// --generate: the text that a trained model writes.
#pragma once

#include <string>

#include "trainer/common/options.h"
#include "trainer/device/device.h"

namespace tutti::train {

// The continuation of --prompt by the model of --init's checkpoint. Throws BadInput.
std::string generated(const Options& options, const Device& device);

}  // namespace tutti::train
