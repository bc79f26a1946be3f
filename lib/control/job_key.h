// The secret of a job: whoever holds it belongs to the job. Never logged, never in an argument
// vector; every copy is wiped where it ends.
#pragma once

#include <string.h>

#include <array>
#include <cstdint>
#include <type_traits>

namespace tutti {

struct JobKey : std::array<uint8_t, 32> {
  constexpr ~JobKey() {
    if (!std::is_constant_evaluated()) explicit_bzero(data(), size());
  }
};

}  // namespace tutti
