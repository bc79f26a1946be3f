// What a user asks of `tutti-bench allreduce`, checked before any rank starts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/buffers.h"
#include "bench/measure.h"
#include "tutti/tutti.h"

namespace CLI {
class App;
}

namespace tutti::bench {

struct AllreduceOptions {
  // As given.
  int nranks = 2;
  std::string sizes_text;  // "": 4:64M, or from one element on
  std::string algorithms_text = "all";
  std::string transports_text = "shm";
  std::string dtype_text = "float32";
  std::string op_text = "sum";
  std::string workload;
  std::string memory_text = "heap";
  bool in_place = false;
  bool check = true;
  bool unfused = false;
  Method method;
  std::string json, csv;  // "": none, "-": stdout
  bool append = false;    // internal: a part of a run whose other part has opened the files

  // What it means.
  std::vector<size_t> sizes;  // bytes
  std::vector<std::string> algorithms;
  std::vector<std::string> transports;
  tutti_dtype dtype = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  Memory memory = Memory::heap;
};

void add_allreduce_options(CLI::App& app, AllreduceOptions& options);

// Throws BadInput with what is allowed.
void resolve(AllreduceOptions& options);

// Names of the library's allreduce algorithms.
std::vector<std::string> allreduce_algorithms();

}  // namespace tutti::bench
