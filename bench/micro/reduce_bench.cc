// The float32 sum of two arrays beside a plain intrinsics loop for the same instruction set, and
// the other kernels by themselves. Kernel and loop take turns within one measurement, so that drift
// of the machine hits both; `ratio` is the kernel's median over the loop's.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/types.h"
#include "lib/reduce/reduce.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

// noinline and called through a pointer, as the kernels are.
__attribute__((target("avx2"), noinline)) void avx2_loop(void* out, const void* a, const void* b,
                                                         size_t elements) {
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  size_t i = 0;
  for (; i + 8 <= elements; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < elements; ++i) to[i] = x[i] + y[i];
}

__attribute__((target("avx512f"), noinline)) void avx512_loop(void* out, const void* a,
                                                              const void* b, size_t elements) {
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  size_t i = 0;
  for (; i + 16 <= elements; i += 16) {
    _mm512_storeu_ps(to + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
  }
  for (; i < elements; ++i) to[i] = x[i] + y[i];
}

// An array at an offset from a page: 0, or 16 as malloc gives for large blocks.
class Array {
 public:
  Array(size_t bytes, size_t offset) : storage_(bytes + 8192), data_(storage_.data()) {
    data_ += 4096 - reinterpret_cast<uintptr_t>(data_) % 4096 + offset;
  }
  void* data() { return data_; }

 private:
  std::vector<uint8_t> storage_;
  uint8_t* data_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Nanoseconds of one call, over a batch long enough for the clock.
double time_batch(Reduce2Fn function, void* out, void* a, void* b, size_t elements, size_t calls) {
  const auto begin = Clock::now();
  for (size_t i = 0; i < calls; ++i) {
    function(out, a, b, elements);
    benchmark::ClobberMemory();
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() /
         static_cast<double>(calls);
}

void compare(benchmark::State& state, Reduce2Fn loop, const char* target, size_t offset,
             bool in_place) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t elements = bytes / sizeof(float);
  const size_t calls = 1 + 65536 / (bytes + 64);
  Array a(bytes, offset);
  Array b(bytes, offset);
  Array out(bytes, offset);
  void* to = in_place ? a.data() : out.data();
  Reduce2Fn kernel = find_kernels(TUTTI_FLOAT32, TUTTI_SUM, target).reduce2_fn;
  std::vector<double> loop_ns;
  std::vector<double> kernel_ns;
  for (auto _ : state) {
    loop_ns.push_back(time_batch(loop, to, a.data(), b.data(), elements, calls));
    kernel_ns.push_back(time_batch(kernel, to, a.data(), b.data(), elements, calls));
    state.SetIterationTime(kernel_ns.back() * 1e-9 * static_cast<double>(calls));
  }
  state.counters["kernel_ns"] = median(kernel_ns);
  state.counters["loop_ns"] = median(loop_ns);
  state.counters["ratio"] = median(kernel_ns) / median(loop_ns);
  state.counters["GB/s"] = 3.0 * static_cast<double>(bytes) / median(kernel_ns);
}

void fold(benchmark::State& state, tutti_dtype dtype, tutti_op op, const char* target, size_t n) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t elements = bytes / dtype_size(dtype);
  std::vector<Array> arrays;
  std::vector<const void*> operands;
  for (size_t k = 0; k < n; ++k) {
    arrays.emplace_back(bytes, 0);
    operands.push_back(arrays.back().data());
  }
  Array out(bytes, 0);
  const Kernels kernels = find_kernels(dtype, op, target);
  for (auto _ : state) {
    kernels.reduce(out.data(), operands.data(), n, elements);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes * (n + 1)));
}

// Numbers of both signs around 1, normally distributed as gradients are.
void fill(void* data, tutti_dtype dtype, size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < elements; ++i) {
    const double value = normal(random);
    const auto single = static_cast<float>(value);
    const auto bits = std::bit_cast<uint32_t>(single);
    if (dtype == TUTTI_FLOAT64) static_cast<double*>(data)[i] = value;
    if (dtype == TUTTI_FLOAT32) static_cast<float*>(data)[i] = single;
    if (dtype == TUTTI_BFLOAT16) static_cast<uint16_t*>(data)[i] = uint16_t(bits >> 16);
    if (dtype == TUTTI_FLOAT16) {
      static_cast<uint16_t*>(data)[i] =
          uint16_t((bits >> 16 & 0x8000) | (0x3C00 + (bits >> 13 & 0x3FF)));
    }
  }
}

// The kernel of a level beside the left fold over the same operands, in turns.
void compare_level(benchmark::State& state, tutti_dtype dtype, ReduceFn Kernels::*level, size_t n) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t elements = bytes / dtype_size(dtype);
  const size_t calls = 1 + 262144 / (bytes * n);
  std::vector<Array> arrays;
  std::vector<const void*> operands;
  for (size_t k = 0; k < n; ++k) {
    arrays.emplace_back(bytes, 0);
    operands.push_back(arrays.back().data());
    fill(arrays.back().data(), dtype, elements, static_cast<unsigned>(k));
  }
  Array out(bytes, 0);
  const Kernels kernels = find_kernels(dtype, TUTTI_SUM);
  const auto time = [&](ReduceFn function) {
    const auto begin = Clock::now();
    for (size_t i = 0; i < calls; ++i) {
      function(out.data(), operands.data(), n, elements);
      benchmark::ClobberMemory();
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() /
           static_cast<double>(calls);
  };
  std::vector<double> fold_ns;
  std::vector<double> level_ns;
  for (auto _ : state) {
    fold_ns.push_back(time(kernels.reduce_fn));
    level_ns.push_back(time(kernels.*level));
    state.SetIterationTime(level_ns.back() * 1e-9 * static_cast<double>(calls));
  }
  state.counters["fold_ns"] = median(fold_ns);
  state.counters["level_ns"] = median(level_ns);
  state.counters["ratio"] = median(level_ns) / median(fold_ns);
}

void register_levels() {
  const std::pair<const char*, ReduceFn Kernels::*> levels[] = {
      {"canonical", &Kernels::reduce_canonical}, {"exact", &Kernels::reduce_exact}};
  for (const auto& [name, level] : levels) {
    for (const tutti_dtype dtype : {TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_FLOAT16, TUTTI_BFLOAT16}) {
      for (const size_t n : {2, 3, 4, 5, 6, 7, 8, 16, 32}) {
        auto* comparison = benchmark::RegisterBenchmark(
            (std::string(name) + "/" + dtype_name(dtype) + "/operands_" + std::to_string(n))
                .c_str(),
            [dtype, n, level = level](benchmark::State& state) {
              compare_level(state, dtype, level, n);
            });
        comparison->UseManualTime()->Iterations(200)->Arg(1 << 12)->Arg(1 << 14)->Arg(1 << 16);
      }
    }
  }
}

void register_all() {
  register_levels();
  for (const char* target : reduce_target_names()) {
    const std::string name = target;
    Reduce2Fn loop = name == "avx512" ? avx512_loop : name == "avx2" ? avx2_loop : nullptr;
    if (loop == nullptr) continue;
    for (const size_t offset : {0, 16}) {
      for (const bool in_place : {false, true}) {
        auto* comparison = benchmark::RegisterBenchmark(
            ("sum_float32/" + name + "/offset_" + std::to_string(offset) +
             (in_place ? "/in_place" : "/out_of_place"))
                .c_str(),
            [=](benchmark::State& state) { compare(state, loop, target, offset, in_place); });
        comparison->UseManualTime()->Iterations(400);
        for (const int64_t bytes :
             {4, 8, 12, 16, 32, 64, 100, 256, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20}) {
          comparison->Arg(bytes);
        }
      }
    }
  }
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_LXOR}) {
      for (const size_t n : {2, 8, 32}) {
        const auto dtype = static_cast<tutti_dtype>(t);
        if (!op_supports(op, dtype)) continue;
        benchmark::RegisterBenchmark(
            (std::string("fold/") + dtype_name(dtype) + "/" + op_name(op) + "/operands_" +
             std::to_string(n))
                .c_str(),
            [=](benchmark::State& state) { fold(state, dtype, op, reduce_target_name(), n); })
            ->Arg(1 << 14)
            ->MinTime(0.05);
      }
    }
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
