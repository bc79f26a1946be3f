// The built-in codecs of compressed allreduces.
#pragma once

#include <cstddef>
#include <string_view>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti::sparse {

enum class BuiltinCodec { bf16, fp8 };

// As in tutti_codec, without a context. Pointers may have any alignment.
struct CodecKernels {
  void (*encode)(const float* values, size_t count, void* encoded) = nullptr;
  void (*decode)(const void* encoded, size_t count, float* values) = nullptr;
};

// Of an instruction set of reduce_target_names(); all null for other names. All give the same bits.
CodecKernels codec_kernels(BuiltinCodec codec, std::string_view target);

// INVALID, with the names that are allowed, for any other.
Status codec_from_name(std::string_view name, const tutti_codec** out);

}  // namespace tutti::sparse
