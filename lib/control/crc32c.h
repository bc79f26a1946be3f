// CRC-32C (Castagnoli), the checksum of frame headers and ids.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

uint32_t crc32c(const void* data, size_t bytes);

}  // namespace tutti
