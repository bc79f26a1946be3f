// Where results go: to files and stdout as they come, tables at the end, with a progress bar on
// stderr meanwhile.
#pragma once

#include <fstream>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/result.h"

namespace tutti::bench {

class Report {
 public:
  // Opens the files. Throws BadInput if it cannot.
  explicit Report(const Options& options);
  void add(const Result& result);
  // Shows that `fraction` of the whole run is done, and `what` is next. On a terminal only.
  void progress(double fraction, const std::string& what);
  // The tables, unless stdout is for machines.
  void finish();

 private:
  std::ostream* open(const std::string& name, std::ofstream& file) const;
  std::string render(const std::vector<Result>& results, size_t width) const;
  bool append_;
  bool workload_;
  Form form_;
  std::ofstream json_file_, csv_file_;
  std::ostream* json_;
  std::ostream* csv_;
  bool tables_;
  std::vector<Result> results_;
};

}  // namespace tutti::bench
