#include "bench/records.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tutti::bench {
namespace {

using Json = nlohmann::ordered_json;

// Figures to a tenth of a nanosecond: more would be noise.
Json or_null(bool known, double value) { return known ? Json(rounded(value)) : Json(nullptr); }

void add_form(const Result& r, Json& j) {
  const Beside& b = r.beside;
  const bool computes = b.form == Form::nonblocking;
  const bool varied = b.form == Form::varied;
  j["form"] = computes                     ? "nonblocking"
              : b.form == Form::persistent ? "persistent"
              : varied                     ? "varied"
                                           : "plain";
  j["form_median_us"] = or_null(r.ran, b.us.median);
  j["form_p95_us"] = or_null(r.ran, b.us.p95);
  j["compute_median_us"] = or_null(computes, b.compute_us.median);
  j["sequence_median_us"] = or_null(computes, b.sequence_us.median);
  j["sequence_p95_us"] = or_null(computes, b.sequence_us.p95);
  j["together_median_us"] = or_null(computes, b.together_us.median);
  j["together_p95_us"] = or_null(computes, b.together_us.p95);
  j["overlap_percent"] = or_null(computes, b.overlap_percent);
  j["overlap_p5_percent"] = or_null(computes, b.overlap_p5_percent);
  j["counts"] = varied ? Json(b.counts) : Json(nullptr);
  j["repeated_median_us"] = or_null(varied && r.ran, b.repeated_us.median);
  j["repeated_p95_us"] = or_null(varied && r.ran, b.repeated_us.p95);
  j["progress"] = b.progress_thread ? "thread" : "caller";
  j["tests"] = b.tests;
}

void add_gpu(const Result& r, Json& j) {
  const OnGpu& g = r.gpu;
  j["ranks_as"] = g.threads ? "threads" : "processes";
  j["gpus"] = g.gpus;
  j["graph"] = g.graph;
  j["enqueue_us"] = or_null(r.ran, g.enqueue_us);
  j["empty_us"] = or_null(g.empty_us > 0, g.empty_us);
  j["of_empty"] = or_null(r.ran && g.empty_us > 0, r.us.median / g.empty_us);
  j["copy_GBs"] = or_null(g.copy_GBs > 0, g.copy_GBs);
  j["hand_over_us"] = or_null(g.hand_over_us > 0, g.hand_over_us);
}

void add_ways(const Result& r, Json& j) {
  j["way"] = r.choice.way;
  j["predicted_us"] = or_null(r.choice.predicted_us > 0, r.choice.predicted_us);
  j["measured_us"] = or_null(r.choice.measured_us > 0, r.choice.measured_us);
  j["runner_up"] = r.runner_up.algorithm;
  j["runner_up_way"] = r.runner_up.way;
  j["runner_up_predicted_us"] = or_null(r.runner_up.predicted_us > 0, r.runner_up.predicted_us);
  j["runner_up_measured_us"] = or_null(r.runner_up.measured_us > 0, r.runner_up.measured_us);
}

Json object(const Result& r) {
  Json j;
  j["collective"] = r.collective;
  j["algorithm"] = r.algorithm;
  j["transport"] = r.transport;
  j["ranks"] = r.ranks;
  j["bytes"] = r.bytes;
  j["count"] = r.count;
  j["dtype"] = r.dtype;
  j["op"] = r.op;
  j["level"] = r.level;
  j["in_place"] = r.in_place;
  j["memory"] = r.memory;
  j["data"] = data_name(r.data);
  j["iterations"] = r.iterations;
  j["batches"] = r.batches;
  j["batches_dropped"] = r.dropped;
  j["min_us"] = or_null(r.ran, r.us.min);
  j["median_us"] = or_null(r.ran, r.us.median);
  j["p95_us"] = or_null(r.ran, r.us.p95);
  j["p99_us"] = or_null(r.ran, r.us.p99);
  j["algbw_GBs"] = or_null(r.ran, r.algbw_GBs());
  j["busbw_GBs"] = or_null(r.ran, r.busbw_GBs());
  j["of_fast"] = or_null(r.price() > 0, r.price());
  j["of_best"] = or_null(r.regret() > 0, r.regret());
  j["limit_us"] = or_null(r.limit_us > 0, r.limit_us);
  j["limit_way"] = r.limit_way;
  j["hop_ns"] = or_null(r.hop_ns > 0, r.hop_ns);
  j["wrong"] = r.checked ? Json(r.wrong) : Json(nullptr);
  j["chosen"] = r.chosen;
  j["path"] = r.path;
  j["reason"] = r.reason;
  if (r.choice.measured_us > 0) add_ways(r, j);
  if (!r.dense()) {
    j["sent_bytes"] = rounded(r.sent_bytes);
    j["relative_error"] = r.relative_error;
  }
  if (r.root >= 0) j["root"] = r.root;
  if (r.beside.form != Form::plain) add_form(r, j);
  if (r.gpu.measured) add_gpu(r, j);
  if (!r.workload.empty()) {
    j["workload"] = r.workload;
    j["bucket"] = r.bucket < 0 ? Json("all") : Json(r.bucket);
  }
  return j;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? quoted(value.get<std::string>()) : value.dump();
}

// CSV has the same columns in every file; those that a result does not have are empty.
Json with_all_columns(const Result& r) {
  Json j = object(r), ways, form, gpu;
  add_ways(r, ways);
  add_form(r, form);
  add_gpu(r, gpu);
  std::vector<std::string> often_absent{"sent_bytes", "relative_error"};
  for (const Json& part : {ways, form, gpu})
    for (const auto& item : part.items()) often_absent.push_back(item.key());
  for (const char* key : {"workload", "bucket", "root"}) often_absent.emplace_back(key);
  for (const std::string& key : often_absent) {
    Json value = j.contains(key) ? j[key] : Json("");
    j.erase(key);
    j[key] = std::move(value);
  }
  return j;
}

}  // namespace

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

std::string to_json(const Result& result) { return object(result).dump(); }

std::string csv_head() {
  std::string line;
  const Json columns = with_all_columns({});
  for (const auto& item : columns.items()) line += (line.empty() ? "" : ",") + item.key();
  return line;
}

std::string to_csv(const Result& result) {
  std::string line;
  bool first = true;
  const Json columns = with_all_columns(result);
  for (const auto& item : columns.items()) {
    line += (first ? "" : ",") + cell(item.value());
    first = false;
  }
  return line;
}

}  // namespace tutti::bench
