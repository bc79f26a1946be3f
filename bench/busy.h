// Whether other programs use the machine; then comparisons on it are unreliable.
#pragma once

#include <string>

namespace tutti::bench {

// Share of all CPUs' time that was not idle during the next `milliseconds`; 0 if unknown.
double busy_share(int milliseconds);

// A sentence about it; "" if the machine is quiet enough.
std::string about_busy(double share);

}  // namespace tutti::bench
