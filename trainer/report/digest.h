// Of parameters: whether those that should be equal are.
#pragma once

#include <string>

#include "trainer/sync/strategy.h"

namespace tutti::train {

// Collective over the workers: a digest of the model's parameters, and of which rank has which.
// Throws Failure where what several ranks hold should be equal and is not.
std::string checked_digest(const Worker& worker);

}  // namespace tutti::train
