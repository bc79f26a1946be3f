// A digest of the parameters, and the check that copies are equal.
#pragma once

#include <string>

#include "trainer/sync/strategy.h"

namespace tutti::train {

// Collective over the workers: a digest of the model's parameters and of which rank has which.
// Throws Failure if copies that should be equal are not.
std::string checked_digest(const Worker& worker);

}  // namespace tutti::train
