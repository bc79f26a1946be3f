// The results of the benchmark, independent of their presentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/live.h"
#include "bench/stats.h"

namespace tutti::bench {

// How a call is made.
enum class Form { plain, nonblocking, persistent, varied };

// What ran alternating with the plain call (--nonblocking, --persistent, --vary-counts).
struct Beside {
  Form form = Form::plain;  // plain: nothing
  bool progress_thread = false;
  size_t tests = 0;  // calls of tutti_test() while computing
  Summary us;  // begun or started, and waited for at once; varied: with another count each time
  // Varied only:
  size_t counts = 0;    // that take turns
  Summary repeated_us;  // the same counts, each many times before the next
  // Nonblocking only:
  Summary compute_us;
  Summary sequence_us;  // the plain call, then the computing
  Summary together_us;  // begun, then the computing, then waited for
  double overlap_percent = 0;
  double overlap_p5_percent = 0;  // over rounds
};

// Additional results for vectors on GPUs.
struct OnGpu {
  bool measured = false;
  bool threads = false;     // ranks are threads of one process
  int gpus = 0;             // that ranks are on
  bool graph = false;       // calls were captured and replayed
  double enqueue_us = 0;    // of a call, on the host
  double empty_us = 0;      // of the least kernels and waits of a short call, without work
  double copy_GBs = 0;      // read and written by copies within the memory of a GPU
  double hand_over_us = 0;  // of a flag, from a kernel of rank 0 to one of rank 1; 0: one rank
};

// How `auto` goes, as the library explains it once it has run: its choice and the next best.
struct Way {
  std::string algorithm;
  std::string way;          // "" if there is one way only
  double predicted_us = 0;  // both of as many elements as the next power of two; 0: not known
  double measured_us = 0;
};

// One algorithm at one size (or one bucket of a workload, or its whole gradient exchange).
struct Result {
  std::string collective = "allreduce";
  int root = -1;          // -1: there is none
  std::string algorithm;  // as asked for: "ring", "auto"
  std::string transport;
  int ranks = 0;
  size_t bytes = 0;            // of the vector, or of the longest buffer of any rank
  size_t count = 0;            // elements of the vector, or of one block
  std::string dtype;           // "none" where nothing is moved
  std::string op;              // "none" where nothing is reduced
  std::string level = "fast";  // the same
  bool in_place = false;
  std::string memory = "heap";  // or "adopted", "symmetric", "cuda", "cuda-symmetric"
  Data data = Data::still;

  bool ran = false;
  std::string chosen;  // what `auto` chose
  std::string path;    // "fused", "schedule"
  std::string reason;  // why it was chosen, or why it did not run
  Way choice, runner_up;

  size_t iterations = 0;
  size_t batches = 0;
  size_t dropped = 0;
  Summary us;           // one call
  double limit_us = 0;  // 0: unknown
  double fast_us = 0;   // of the same algorithm at level fast; 0: not measured
  double named_us = 0;  // of `auto`: of the fastest algorithm that was asked for by name; 0: none
  double hop_ns = 0;    // 0: unknown
  bool checked = false;
  uint64_t wrong = 0;  // elements, over all ranks

  // Of allreduces of sparse or encoded vectors, which do not compete with the dense ones; else 0:
  double sent_bytes = 0;      // by the rank that sends most
  double relative_error = 0;  // of encoding: root mean square of the error over that of the input

  std::string workload;   // "" unless it is one
  int bucket = -1;        // -1: all buckets
  std::string limit_way;  // the loop that reached the limit
  Beside beside;
  OnGpu gpu;

  bool dense() const { return sent_bytes == 0; }
  // The time relative to level fast; 0: unknown.
  double price() const { return ran && fast_us > 0 ? us.median / fast_us : 0; }
  // The time of `auto` relative to the best choice; 0: unknown.
  double regret() const { return ran && named_us > 0 ? us.median / named_us : 0; }
  // As nccl-tests defines them; GB = 1e9 bytes.
  double algbw_GBs() const { return us.median > 0 ? double(bytes) / us.median / 1e3 : 0; }
  double busbw_GBs() const { return algbw_GBs() * find_collective(collective).factor(ranks); }
};

}  // namespace tutti::bench
