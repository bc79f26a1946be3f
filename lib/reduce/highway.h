// Which instruction sets the kernels are compiled for. Included before any header of Highway, so
// that all kernel files agree.
//
// x86-64: AVX-512, AVX2, SSE4 and the scalar fallback, which the compiler vectorises with SSE2.
// SSSE3 is left out because the few processors that have it without SSE4.2 (Core 2, early Atom,
// Bobcat) can use the fallback: a fifth less to compile. Vectors of unknown length (SVE) are left
// out because the loops need the number of lanes as a constant. Highway's emulated fallback is left
// out in favour of its scalar one: GCC before 12.3 miscompiles the former, and one fallback for all
// compilers is one thing to test.
//
// aarch64: NEON, which every such processor has, without Highway's dispatch at run time. Dispatch
// puts all vector code under a pragma that adds the cryptographic instructions, which nothing here
// uses; GCC 12 does not apply the pragma to constructors that it generates, and then refuses to
// inline their members' constructors.
#pragma once

#if defined(__aarch64__)
#define TOOLCHAIN_MISS_SYS_AUXV_H 1  // Highway's own switch: HWY_HAVE_RUNTIME_DISPATCH is 0
#endif
#define HWY_BROKEN_EMU128 1
#define TUTTI_ALWAYS_DISABLED \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#ifdef TUTTI_INSTRUCTION_SET  // only it and the fallback: in sanitizer builds and native builds
#define HWY_DISABLED_TARGETS \
  (TUTTI_ALWAYS_DISABLED | ((HWY_AVX3 | HWY_AVX2 | HWY_SSE4) & ~TUTTI_INSTRUCTION_SET))
#else
#define HWY_DISABLED_TARGETS TUTTI_ALWAYS_DISABLED
#endif
