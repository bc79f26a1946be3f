// The trainer's exceptions. Each ends as one sentence on stderr.
#pragma once

#include <fmt/format.h>

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

// A rank that others need is dead, or they go on without it already: exit status 1, or with
// --elastic the rest goes on.
struct Lost : Failure {
  using Failure::Failure;
};

// Of an option's value.
inline void within(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most))
    throw BadInput(fmt::format("{} {}: must be from {} to {}", option, value, least, most));
}

}  // namespace tutti::train
