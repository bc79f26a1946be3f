// What `tutti tune` does in each rank: it tries candidate values through the library itself, all
// candidates of a step in turns, and keeps the one with the least times; then it fits the model
// that algorithms are chosen by to times of every algorithm.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/tuning/tuning.h"

namespace tutti::tune {

// A call whose time counts: of `bytes` in the longest buffer of a rank.
struct Cell {
  Collective collective = Collective::allreduce;
  size_t bytes = 0;
  std::string algorithm;  // empty: chosen
};

// Part of the whole work that is done, and what is being done.
using Progress = std::function<void(double done, const std::string& what)>;

// A call that the library chooses the algorithm of, without the table and with it.
struct Comparison {
  Collective collective = Collective::allreduce;
  size_t bytes = 0;
  double before_us = 0, after_us = 0;
};

struct Result {
  TuningTable table;
  std::vector<Comparison> compared;
  double change = 1;  // geometric mean of after / before
  // For who reads along: what was kept, and what it gains.
  std::vector<std::string> found;
};

// Collective over the ranks of `world`; all get the same result. Where they do not all share
// memory, only what sockets or the network do is measured. `seconds`: about how long it may take.
// Progress is called on rank 0 alone.
Status tune(Communicator& world, const CommSettings& settings, double seconds,
            const Progress& progress, Result* out);

}  // namespace tutti::tune
