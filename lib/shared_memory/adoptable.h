// Whether pages may be taken out of the program's memory and put back as a shared mapping, without
// anybody seeing a difference.
#pragma once

#include <cstdint>

#include "lib/base/status.h"

namespace tutti::shared {

// What the program has asked of huge pages there, to be asked again when the pages are given back.
enum class HugePages : uint8_t { as_usual, wanted, unwanted };

// [begin, end) are whole pages. Refused is all that is no ordinary private memory: INVALID where
// it cannot be read and written at all or is adopted already, else UNSUPPORTED, with why.
Status check_adoptable(uintptr_t begin, uintptr_t end, HugePages* huge);

}  // namespace tutti::shared
