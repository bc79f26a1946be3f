#include "bench/report.h"

#include <algorithm>
#include <iostream>

#include "bench/error.h"
#include "bench/forms_table.h"
#include "bench/records.h"
#include "bench/table.h"
#include "bench/terminal.h"

namespace tutti::bench {

Report::Report(const Options& options)
    : append_(options.append),
      workload_(!options.workload.empty()),
      form_(options.form),
      json_(open(options.json, json_file_)),
      csv_(open(options.csv, csv_file_)),
      tables_(options.json != "-" && options.csv != "-") {
  if (csv_ && !append_) *csv_ << csv_head() << "\n";
}

std::ostream* Report::open(const std::string& name, std::ofstream& file) const {
  if (name.empty()) return nullptr;
  if (name == "-") return &std::cout;
  file.open(name, append_ ? std::ios::app : std::ios::trunc);
  if (!file) throw BadInput("cannot write to '" + name + "'");
  return &file;
}

void Report::add(const Result& result) {
  results_.push_back(result);
  if (json_) *json_ << to_json(result) << std::endl;
  if (csv_) *csv_ << to_csv(result) << std::endl;
}

void Report::progress(double fraction, const std::string& what) { show_progress(fraction, what); }

std::string Report::render(const std::vector<Result>& results, size_t width) const {
  if (workload_) return render_workload(results, width);
  if (form_ == Form::nonblocking) return render_nonblocking(results, width);
  if (form_ == Form::persistent) return render_persistent(results, width);
  if (form_ == Form::varied) return render_varied(results, width);
  return render_sizes(results, width);
}

void Report::finish() {
  show_progress(1, "");
  if (!tables_) return;
  std::vector<std::string> transports;
  for (const Result& r : results_)
    if (std::find(transports.begin(), transports.end(), r.transport) == transports.end())
      transports.push_back(r.transport);
  bool first = !append_;
  for (const std::string& transport : transports) {
    std::vector<Result> part;
    for (const Result& r : results_)
      if (r.transport == transport) part.push_back(r);
    if (!first) std::cout << "\n";
    first = false;
    std::cout << render(part, screen_width());
  }
  std::cout.flush();
}

}  // namespace tutti::bench
