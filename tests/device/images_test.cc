// The fat binaries that the library holds: every kernel of list.h, once for each kind of GPU.
#include "lib/device/kernels/images.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/device/kernels/list.h"

namespace tutti::device {
namespace {

const std::vector<std::string> names = {
#define TUTTI_NAME(name, ...) #name,
    TUTTI_COMBINE_KERNELS(TUTTI_NAME)
#undef TUTTI_NAME
        "tutti_copy",
    "tutti_empty"};

// What precedes each part of a fat binary, as far as it is known: CUDA documents none of it.
struct Part {
  uint16_t kind;  // 1: PTX, 2: machine code
  uint16_t version;
  uint32_t header_bytes;
  uint64_t padded_bytes;
  uint32_t bytes;  // when compressed, else 0
  uint32_t unknown;
  uint32_t minor;
  uint32_t architecture;  // 80
};

// Through the program zstd; empty where there is none.
std::string decompressed(const std::string& packed) {
  const std::string path = testing::TempDir() + "tutti_kernel_image.zst";
  FILE* const file = fopen(path.c_str(), "wb");
  if (file == nullptr) return {};
  fwrite(packed.data(), 1, packed.size(), file);
  fclose(file);
  FILE* const pipe = popen(("zstd -q -d -c '" + path + "' 2>/dev/null").c_str(), "r");
  std::string result;
  char block[65536];
  while (size_t bytes = fread(block, 1, sizeof block, pipe)) result.append(block, bytes);
  pclose(pipe);
  remove(path.c_str());
  return result;
}

std::string text_of(const std::byte* begin, size_t bytes) {
  return {reinterpret_cast<const char*>(begin), bytes};
}

// The names of functions: behind ".entry " in PTX, between zeros in machine code.
std::set<std::string> kernels_in(const std::string& content, bool ptx) {
  const std::string mark = ptx ? ".entry tutti_" : std::string("\0tutti_", 7);
  std::set<std::string> names;
  for (size_t at = content.find(mark); at != std::string::npos; at = content.find(mark, at + 1)) {
    const size_t begin = at + mark.size() - strlen("tutti_");
    const size_t end = content.find(ptx ? '(' : '\0', begin);
    names.insert(content.substr(begin, end - begin));
  }
  return names;
}

TEST(Images, HoldEveryKernelForEveryKindOfGpu) {
  if (kernel_images().empty()) GTEST_SKIP() << "this build has no nvcc, so it has no kernels";
  std::map<std::string, std::multiset<std::string>> found;  // kernels by "2/80": kind, architecture
  for (const std::span<const std::byte> image : kernel_images()) {
    uint32_t magic = 0;
    std::memcpy(&magic, image.data(), 4);
    ASSERT_EQ(magic, 0xBA55ED50u);
    for (size_t at = 16; at < image.size();) {
      Part part;
      std::memcpy(&part, &image[at], sizeof part);
      const size_t bytes = part.bytes != 0 ? part.bytes : part.padded_bytes;
      std::string content = text_of(&image[at + part.header_bytes], bytes);
      if (content.starts_with("\x28\xB5\x2F\xFD")) content = decompressed(content);
      const std::set<std::string> kernels = kernels_in(content, part.kind == 1);
      if (kernels.empty()) GTEST_SKIP() << "compressed, and no program zstd takes it apart";
      found[std::to_string(part.kind) + "/" + std::to_string(part.architecture)].insert(
          kernels.begin(), kernels.end());
      at += part.header_bytes + part.padded_bytes;
    }
  }
  const std::multiset<std::string> all(names.begin(), names.end());
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found["2/80"], all);
  EXPECT_EQ(found["2/90"], all);
  EXPECT_EQ(found["1/90"], all);
}

}  // namespace
}  // namespace tutti::device
