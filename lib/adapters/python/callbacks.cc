// Functions in Python that the library calls: operators and codecs. A call that fails inside the
// library's thread must end there, on all ranks, which a function of the program's says by an
// exception of C++; ctypes has none.
#include <cstdint>
#include <stdexcept>

#include "tutti/tutti.h"

namespace {

void raised() { throw std::runtime_error("it raised an exception"); }

}  // namespace

extern "C" {

// What the context of tutti_python_op() points to. `function` returns 0, or anything else where an
// exception was raised in Python.
struct tutti_python_op_context {
  int (*function)(const void* lower, const void* higher, void* out, size_t count, int dtype,
                  void* context);
};

// A tutti_op_fn.
TUTTI_API void tutti_python_op(const void* lower, const void* higher, void* out, size_t count,
                               tutti_dtype dtype, void* context) {
  const auto& op = *static_cast<const tutti_python_op_context*>(context);
  if (op.function(lower, higher, out, count, dtype, nullptr) != 0) raised();
}

// What the context of the functions of a codec points to. `encode` and `decode` return as above;
// `encoded_bytes` returns SIZE_MAX there.
struct tutti_python_codec_context {
  size_t (*encoded_bytes)(size_t count);
  int (*encode)(const float* values, size_t count, void* encoded);
  int (*decode)(const void* encoded, size_t count, float* values);
};

// The functions of a tutti_codec.
TUTTI_API size_t tutti_python_encoded_bytes(size_t count, void* context) {
  const auto& codec = *static_cast<const tutti_python_codec_context*>(context);
  const size_t bytes = codec.encoded_bytes(count);
  if (bytes == SIZE_MAX) raised();
  return bytes;
}
TUTTI_API void tutti_python_encode(const float* values, size_t count, void* encoded,
                                   void* context) {
  const auto& codec = *static_cast<const tutti_python_codec_context*>(context);
  if (codec.encode(values, count, encoded) != 0) raised();
}
TUTTI_API void tutti_python_decode(const void* encoded, size_t count, float* values,
                                   void* context) {
  const auto& codec = *static_cast<const tutti_python_codec_context*>(context);
  if (codec.decode(encoded, count, values) != 0) raised();
}

}  // extern "C"
