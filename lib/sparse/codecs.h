// The built-in codecs of compressed allreduces.
#pragma once

#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti::sparse {

std::span<const tutti_codec> builtin_codecs();
// INVALID, with the names that are allowed, for any other.
Status codec_from_name(std::string_view name, const tutti_codec** out);

}  // namespace tutti::sparse
