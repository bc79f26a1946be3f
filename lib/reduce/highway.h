// Which instruction sets the kernels are compiled for. Included before any header of Highway, so
// that all kernel files agree.
//
// x86-64: AVX-512, AVX2, SSE4 and the scalar fallback, which the compiler vectorises with SSE2.
// SSSE3 is left out because every processor that has it without SSE4.2 is older than 2009 and the
// fallback serves it: a fifth less to compile. Vectors of unknown length (SVE) are left out because
// the loops take the number of lanes as a constant. Highway's emulated fallback is
// left out in favour of its scalar one: GCC before 12.3 miscompiles the former, and one fallback
// for all compilers is one thing to test.
//
// aarch64: NEON, which every such processor has, without Highway's choice at run time. With it, all
// vector code is in a pragma that adds the cryptographic instructions, which nothing here uses; GCC
// 12 leaves constructors that it makes itself out of the pragma, and then refuses to inline those
// of their members.
#pragma once

#if defined(__aarch64__)
#define TOOLCHAIN_MISS_SYS_AUXV_H 1  // Highway's own switch: HWY_HAVE_RUNTIME_DISPATCH is 0
#endif
#define HWY_BROKEN_EMU128 1
#define TUTTI_ALWAYS_DISABLED \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#ifdef TUTTI_INSTRUCTION_SET  // this one and the fallback: builds with a sanitizer, and native ones
#define HWY_DISABLED_TARGETS \
  (TUTTI_ALWAYS_DISABLED | ((HWY_AVX3 | HWY_AVX2 | HWY_SSE4) & ~TUTTI_INSTRUCTION_SET))
#else
#define HWY_DISABLED_TARGETS TUTTI_ALWAYS_DISABLED
#endif
