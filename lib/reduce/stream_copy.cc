#include <cstring>

#include "lib/reduce/reduce.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti {

// Four stores of 16 bytes fill a line, which the processor then writes as a whole.
void stream_copy(void* to, const void* from, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t line = 64, part = sizeof(__m128i);
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const size_t head = (line - reinterpret_cast<uintptr_t>(out) % line) % line;
  if (bytes >= head + line) {
    std::memcpy(out, in, head);
    size_t at = head;
    for (; at + line <= bytes; at += line) {
      __m128i parts[line / part];
      for (size_t i = 0; i < line / part; ++i) {
        parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + at + i * part));
      }
      for (size_t i = 0; i < line / part; ++i) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + at + i * part), parts[i]);
      }
    }
    std::memcpy(out + at, in + at, bytes - at);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace tutti
