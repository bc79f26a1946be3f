// Which memory malloc() has mapped by itself, and which it has not, without reading what lies on
// other pages.
#include "lib/shared_memory/mapped_chunk.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>

#include "tests/support/sanitized.h"

namespace {

using tutti::shared::is_mapped_chunk;

TEST(MappedChunk, IsWhatMallocHasMappedByItself) {
  if (tutti::testing::sanitized) GTEST_SKIP() << "a sanitizer has a malloc() of its own";
  constexpr size_t bytes = 1 << 20;
  auto* const mapped = static_cast<char*>(std::malloc(bytes));
  auto* const aligned = static_cast<char*>(std::aligned_alloc(64, bytes));
  auto* const in_heap = static_cast<char*>(std::malloc(70'000));
  EXPECT_TRUE(is_mapped_chunk(mapped, bytes));
  EXPECT_TRUE(is_mapped_chunk(mapped, 1));
  EXPECT_FALSE(is_mapped_chunk(mapped, bytes + 8192));
  EXPECT_FALSE(is_mapped_chunk(mapped + 16, bytes - 16));
  EXPECT_FALSE(is_mapped_chunk(mapped + 1, bytes - 1));
  EXPECT_FALSE(is_mapped_chunk(mapped + 4096, bytes - 4096));
  EXPECT_TRUE(is_mapped_chunk(aligned, bytes));
  EXPECT_FALSE(is_mapped_chunk(in_heap, 70'000));
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(is_mapped_chunk(pages, bytes));  // would read what lies before it
  munmap(pages, bytes);
  for (char* const one : {mapped, aligned, in_heap}) std::free(one);
}

}  // namespace
