// A C++ program that uses the installed library through CMake.
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  try {
    const tutti::communicator all = tutti::communicator::from_env();
    std::vector<double> values(1000);
    std::iota(values.begin(), values.end(), double(all.rank()));
    all.allreduce(std::span(values));
    const double ranks = all.size();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != ranks * double(i) + ranks * (ranks - 1) / 2) {
        std::fprintf(stderr, "element %zu is wrong\n", i);
        return 1;
      }
    }
    std::printf("rank %d of %d: right\n", all.rank(), all.size());
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
