// All stretches of a run: their order, their results, and the state file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tutti-soak/stretch.h"
#include "transports/registry.h"

namespace tutti::soak {

struct SoakOptions {
  std::vector<std::string> transports = transport_names();
  std::vector<int> ranks{2, 3, 4, 8};
  std::vector<std::string> cores{"own", "crowded"};
  uint64_t seed = 1;
  double seconds = 0;   // of all stretches; 0: until the calls are done
  uint64_t calls = 0;   // in all, shared by the configurations; 0: until the time is over
  uint64_t rounds = 0;  // stretches of each configuration; 0: as time and calls say
  double stretch_s = 0;
  uint64_t from_step = 0, steps = 0;
  double timeout_s = 30;
  std::string state, json;
};

// The results of a configuration so far.
struct Line {
  Configuration configuration;
  Tally tally;
  uint64_t stretches = 0;
  std::vector<uint64_t> bad_seeds;
  bool not_here = false;
};

class Soak {
 public:
  // Continues from the state file if there is one. Throws std::runtime_error.
  explicit Soak(const SoakOptions& options);

  // The exit status.
  int run();

 private:
  void make_lines();
  void load();
  void save() const;
  bool done(const Line& line) const;
  Line* next();
  void run_line(Line* line);
  bool show_progress(const Line& line, const Tally& now);
  void print_table() const;
  void write_json(const std::string& path) const;
  std::string as_json() const;
  double stretch_seconds() const;
  Tally total() const;
  uint64_t seed_of(const Line& line) const { return options_.seed + line.stretches; }

  SoakOptions options_;
  std::vector<Line> lines_;
  double seconds_ = 0;  // in all, including before an interruption
  double stretch_began_s_ = 0, shown_at_s_ = 0;
  bool reported_ = false;
};

}  // namespace tutti::soak
