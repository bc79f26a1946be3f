// Whether this is a build with a sanitizer: many times slower, and used to find other faults than
// wrong bits. Tests that repeat a case to check its bits, or for leaks, repeat it less often there.
#pragma once

namespace tutti::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace tutti::testing
