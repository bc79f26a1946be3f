// The kernels of a group of list.h for the GPU: the macros that each .cu file expands.
#pragma once

#include "lib/device/kernels/combine.h"
#include "lib/device/kernels/copy.h"
#include "lib/device/kernels/list.h"

namespace tutti::device {

TUTTI_ON_BOTH Team this_team() {
#ifdef __CUDA_ARCH__
  return {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
#else
  return {};
#endif
}

}  // namespace tutti::device

#define TUTTI_GLOBAL(name, Arguments, Scratch, body)                                     \
  extern "C" __global__ void __launch_bounds__(tutti::device::block_threads,             \
                                               tutti::device::blocks_per_multiprocessor) \
      name(const __grid_constant__ Arguments arguments) {                                \
    __shared__ Scratch scratch;                                                          \
    body(arguments, tutti::device::this_team(), scratch);                                \
  }

#define TUTTI_COMBINE(name, Fold, ...) \
  TUTTI_GLOBAL(name, CombineArguments, CombineScratch, (combine_kernel<Fold, __VA_ARGS__>))
