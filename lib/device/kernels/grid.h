// How many blocks and threads a kernel is launched with. Any numbers give the same bits; these use
// the memory bandwidth of a GPU.
#pragma once

#include <cstdint>

#include "lib/device/abi.h"

namespace tutti::device {

#ifdef __CUDACC__
#define TUTTI_GRID __host__ __device__ constexpr
#else
#define TUTTI_GRID constexpr
#endif

// Threads of a block; kernels are compiled for no more.
constexpr uint32_t block_threads = 512;
// How many bytes a block copies at a time: four packets a thread.
constexpr uint64_t copy_chunk_bytes = uint64_t{block_threads} * 4 * 16;
// How many bytes a block combines at least: two packets a thread.
constexpr uint64_t combine_chunk_bytes = uint64_t{block_threads} * 2 * 16;
// Blocks that a multiprocessor runs at the same time.
constexpr uint32_t blocks_per_multiprocessor = 2;

TUTTI_GRID uint64_t copy_chunks(uint64_t bytes) {
  return (bytes + copy_chunk_bytes - 1) / copy_chunk_bytes;
}

// The blocks for so many chunks, at least one.
constexpr uint32_t blocks_for(uint64_t chunks, uint32_t multiprocessors) {
  const uint64_t most = uint64_t{multiprocessors} * blocks_per_multiprocessor;
  const uint64_t blocks = chunks < most ? chunks : most;
  return blocks == 0 ? 1 : static_cast<uint32_t>(blocks);
}
constexpr uint32_t copy_blocks(const CopyArguments& arguments, uint32_t multiprocessors) {
  uint64_t chunks = 0;
  for (uint32_t p = 0; p < arguments.pieces; ++p) chunks += copy_chunks(arguments.piece[p].bytes);
  return blocks_for(chunks, multiprocessors);
}
constexpr uint32_t combine_blocks(uint64_t bytes, uint32_t multiprocessors) {
  return blocks_for((bytes + combine_chunk_bytes - 1) / combine_chunk_bytes, multiprocessors);
}

}  // namespace tutti::device
