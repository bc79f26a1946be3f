// The kinds of data; one file each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "trainer/data/data.h"

namespace tutti::train {

std::unique_ptr<Data> open_text(const std::string& path, int64_t context,
                                const std::string& tokens);
std::unique_ptr<Data> open_idx(const std::string& folder);
std::unique_ptr<Data> make_digits(uint64_t seed);
std::unique_ptr<Data> make_noise();

// A whole file, unpacked where its name ends in .gz. Throws BadInput in the name of the option.
std::string data_in(const std::string& path, const char* option = "--data");

// FNV-1a, of bytes that follow those of `so_far`.
inline uint64_t digest_of(std::span<const std::byte> bytes, uint64_t so_far = 0xcbf29ce484222325u) {
  for (const std::byte byte : bytes) so_far = (so_far ^ uint64_t(byte)) * 0x100000001b3u;
  return so_far;
}

}  // namespace tutti::train
