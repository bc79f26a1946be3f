// The trainer's exceptions. Each ends as one sentence on stderr.
#pragma once

#include <stdexcept>

namespace tutti::train {

// The request cannot be fulfilled: exit status 2, before any rank starts if it can be known then.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The run failed: exit status 1.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti::train
