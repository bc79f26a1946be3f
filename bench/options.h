// The options of `tutti-bench COLLECTIVE`, checked before any rank starts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/buffers.h"
#include "bench/collectives.h"
#include "bench/live.h"
#include "bench/measure.h"
#include "bench/result.h"
#include "bench/transports.h"
#include "tutti/tutti.h"

namespace CLI {
class App;
}

namespace tutti::bench {

struct TypeAndOp {
  tutti_dtype dtype;
  tutti_op op;
};

struct Options {
  explicit Options(const Collective& measured) : collective(&measured) {}
  const Collective* collective;

  // As given.
  int nranks = 2;
  int root = 0;
  std::string sizes_text;       // "": 4:64M, or from one element on
  std::string algorithms_text;  // "": all; auto where another form of the call is measured
  std::string transports_text = default_transport();
  std::string dtype_text = "float32";
  std::string op_text = "sum";
  std::string levels_text = "fast";
  std::string workload;
  std::string memory_text = "heap";
  std::string data_text = "still";
  std::string densities_text, codecs_text;  // allreduce only
  std::string ranks_as_text;                // "": processes
  int ranks_a_gpu = 0;                      // 0: spread over the GPUs
  bool graph = false;                       // calls on a GPU are captured and replayed
  bool in_place = false;
  bool nonblocking = false, persistent = false;
  size_t varied = 0;          // counts that take turns beside the plain call; 0: none
  std::string progress_text;  // "": caller
  size_t tests = 0;           // calls of tutti_test() while a rank computes
  bool check = true;
  bool unfused = false;
  Method method;
  std::string json, csv;  // "": none, "-": stdout
  bool append = false;    // internal: a part of a run whose other part has opened the files

  // As resolved.
  std::vector<size_t> sizes;  // bytes
  std::vector<std::string> algorithms;
  std::vector<std::string> transports;
  std::vector<tutti_level> levels;      // that take turns; one if the collective has no reduction
  std::vector<TypeAndOp> combinations;  // one, or all that --dtype all and --op all mean
  Memory memory = Memory::heap;
  Data data = Data::still;
  bool gpu_threads = false;         // with memory of a GPU: ranks are threads of one process
  std::vector<double> densities;    // of sparse vectors, measured beside dense ones
  std::vector<std::string> codecs;  // measured beside vectors that are not encoded
  Form form = Form::plain;          // measured beside the plain call
  bool progress_thread = false;
};

// Adds the options that apply to the collective.
void add_options(CLI::App& app, Options& options);

// Throws BadInput with what is allowed.
void resolve(Options& options);
// Throws BadInput unless the collective can be called by so many ranks.
void check_ranks(const Options& options, int nranks);

}  // namespace tutti::bench
