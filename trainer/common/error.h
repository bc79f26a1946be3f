// What the trainer throws. Everything ends as one sentence on stderr.
#pragma once

#include <stdexcept>

namespace tutti::train {

// What the user asked for cannot be done: exit status 2, before any rank starts where it can be
// known.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// It went wrong on the way: exit status 1.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti::train
