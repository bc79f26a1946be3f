// Keyed hashes and random bytes, by OpenSSL and the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "lib/control/job_key.h"

namespace tutti {

using Mac = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 32>;

// HMAC-SHA256 over a label, which separates the uses of a key, and then the parts, whose lengths
// must be fixed by the label.
Mac keyed_hash(const JobKey& key, std::string_view label,
               std::initializer_list<std::span<const uint8_t>> parts);

// Constant time: does not depend on where they differ.
bool equal_secret(std::span<const uint8_t, 32> a, std::span<const uint8_t, 32> b);

Status random_bytes(std::span<uint8_t> out);

}  // namespace tutti
