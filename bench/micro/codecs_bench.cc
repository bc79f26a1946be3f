// Encoding and decoding by the built-in codecs beside a copy that reads and writes as many bytes in
// all, in turns within one measurement, so that drift of the machine hits both. `ratio` is the
// codec's median over the copy's, GB/s counts bytes of float32.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lib/reduce/reduce.h"
#include "lib/sparse/codecs.h"

namespace tutti {
namespace {

using sparse::BuiltinCodec;
using sparse::CodecKernels;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Nanoseconds of one call, over a batch long enough for the clock.
template <class Function>
double time_batch(size_t calls, Function&& function) {
  const auto begin = Clock::now();
  for (size_t i = 0; i < calls; ++i) {
    function();
    benchmark::ClobberMemory();
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / double(calls);
}

void compare(benchmark::State& state, BuiltinCodec codec, const char* target, bool encodes) {
  const auto bytes = size_t(state.range(0));
  const size_t count = bytes / sizeof(float), calls = 1 + (1 << 20) / bytes;
  const CodecKernels kernels = sparse::codec_kernels(codec, target);
  const size_t encoded_bytes = codec == BuiltinCodec::bf16 ? count * 2 : count + (count + 31) / 32;
  const size_t copied = (bytes + encoded_bytes) / 2;
  std::vector<float> values(count), decoded(count);
  std::vector<uint8_t> encoded(encoded_bytes), from(copied), to(copied);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;  // as gradients are
  for (float& value : values) value = normal(random);
  kernels.encode(values.data(), count, encoded.data());
  const auto run = [&] {
    if (encodes) {
      kernels.encode(values.data(), count, encoded.data());
    } else {
      kernels.decode(encoded.data(), count, decoded.data());
    }
  };
  std::vector<double> codec_ns, copy_ns;
  for (auto _ : state) {
    copy_ns.push_back(time_batch(calls, [&] { std::memcpy(to.data(), from.data(), copied); }));
    codec_ns.push_back(time_batch(calls, run));
    state.SetIterationTime(codec_ns.back() * 1e-9 * double(calls));
  }
  state.counters["copy_ns"] = median(copy_ns);
  state.counters["codec_ns"] = median(codec_ns);
  state.counters["ratio"] = median(codec_ns) / median(copy_ns);
  state.counters["GB/s"] = double(bytes) / median(codec_ns);
}

void register_all() {
  const std::pair<const char*, BuiltinCodec> codecs[] = {{"bf16", BuiltinCodec::bf16},
                                                         {"fp8", BuiltinCodec::fp8}};
  for (const char* target : reduce_target_names()) {
    for (const auto& [name, codec] : codecs) {
      for (const bool encodes : {true, false}) {
        auto* comparison = benchmark::RegisterBenchmark(
            (std::string(name) + (encodes ? "/encode/" : "/decode/") + target).c_str(),
            [=, codec = codec](benchmark::State& state) {
              compare(state, codec, target, encodes);
            });
        comparison->UseManualTime()->Iterations(25);
        for (const int64_t bytes : {4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20}) {
          comparison->Arg(bytes);
        }
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
