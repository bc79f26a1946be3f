#include "trainer/report/screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "trainer/common/error.h"
#include "trainer/common/timeline.h"
#include "trainer/parallel/optimizer.h"

namespace tutti::train {
namespace {

// Of --csv.
constexpr const char* columns[] = {"step",           "loss",       "validation_loss",
                                   "samples_per_s",  "step_ms",    "comm_exposed_ms",
                                   "comm_hidden_ms", "bytes_sent", "messages_sent",
                                   "gradient_norm",  "loss_scale"};

// What the object of a step has of the columns.
std::string csv_line(const nlohmann::json& step) {
  std::vector<std::string> values;
  for (const char* name : columns) {
    const std::string text = step.value(name, nlohmann::json()).dump();
    values.push_back(text == "null" ? "" : text);  // as what is not finite is written, too
  }
  return fmt::format("{}", fmt::join(values, ","));
}

// Null where there is no path; "-" is stdout. A run that goes on appends.
std::shared_ptr<std::FILE> opened(const char* option, const std::string& path, bool goes_on) {
  if (path.empty()) return nullptr;
  if (path == "-") return {stdout, std::fflush};
  std::FILE* const file = std::fopen(path.c_str(), goes_on ? "a" : "w");
  if (!file)
    throw BadInput(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
  std::fseek(file, 0, SEEK_END);
  return {file, std::fclose};
}

void write(const char* option, const std::string& path, const std::shared_ptr<std::FILE>& file,
           const std::string& line) {
  std::fputs((line + "\n").c_str(), file.get());
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0)
    throw Failure(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
}

// A longer line could not be erased.
size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' || (c >= 32 && c < 127) ? c : '?';
  return out;
}

std::string progress_line(const StepRecord& r, int64_t steps, double left, size_t columns) {
  const auto minutes = int64_t(left / 60);
  const std::vector<std::string> parts{
      fmt::format("step {}/{}", r.step, steps), fmt::format("loss {:.4g}", r.figures.loss),
      fmt::format("{}:{:02} left", minutes, int64_t(left) % 60),
      fmt::format("{:.4g} samples/s", r.samples_per_s),
      fmt::format("{:.0f} % waits", 100 * r.figures.exposed / std::max(r.seconds, 1e-9))};
  std::string line;
  for (const std::string& part : parts)
    if (line.size() + 2 + part.size() <= columns) line += (line.empty() ? "" : "  ") + part;
  constexpr size_t cells = 20;
  if (line.size() + cells + 3 > columns) return line;
  const auto full = std::min(cells, size_t(double(cells) * double(r.step) / double(steps)));
  return fmt::format("[{}{}] {}", std::string(full, '#'), std::string(cells - full, '.'), line);
}

Screen::Screen(const Options& options, bool shows) : options_(options), began_(now()) {
  if (shows) open(options.resume);
}

void Screen::open(bool goes_on) {
  shows_ = true;
  bar_ = isatty(STDERR_FILENO);
  json_ = opened("--json", options_.json, goes_on);
  csv_ = opened("--csv", options_.csv, goes_on);
  if (csv_ && std::ftell(csv_.get()) <= 0)
    write("--csv", options_.csv, csv_, fmt::format("{}", fmt::join(columns, ",")));
  if (!options_.tensorboard.empty())
    events_ = std::make_unique<Script>(events_script, options_.tensorboard);
}

void Screen::take_over() {
  if (!shows_) open(true);
}

Screen::~Screen() {
  if (bar_) std::fputs("\r\033[K", stderr);
}

void Screen::line(const std::string& text) {
  if (!shows_ || options_.json == "-" || options_.csv == "-") return;
  if (bar_) std::fputs("\r\033[K", stderr);
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Screen::record(const nlohmann::json& object) {
  if (json_) write("--json", options_.json, json_, object.dump());
}

void Screen::summary(const nlohmann::json& object) {
  record(object);
  if (events_) events_->finish();
}

void Screen::step(const StepRecord& r, const nlohmann::json& more) {
  if (!shows_) return;
  const StepFigures& f = r.figures;
  const double hidden = std::max(0.0, f.communication - f.exposed);
  nlohmann::json object = {{"step", r.step},
                           {"loss", f.loss},
                           {"samples_per_s", r.samples_per_s},
                           {"step_ms", 1e3 * r.seconds},
                           {"comm_exposed_ms", 1e3 * f.exposed},
                           {"comm_hidden_ms", 1e3 * hidden},
                           {"bytes_sent", std::round(f.sent.counted.bytes)},
                           {"messages_sent", f.sent.counted.messages}};
  if (r.validation > 0) object["validation_loss"] = r.validation;
  const bool has_length = !(f.gradient < 0);  // perhaps no number
  if (has_length) object["gradient_norm"] = f.gradient;
  if (has_length || f.loss_scale > 0) object["overflow"] = f.overflow;
  if (f.loss_scale > 0) object["loss_scale"] = f.loss_scale;
  if (options_.tp > 1) {
    object["tensor_bytes_sent"] = f.divided.counted.bytes;
    object["tensor_messages_sent"] = f.divided.counted.messages;
  }
  object.update(more);
  record(object);
  if (csv_) write("--csv", options_.csv, csv_, csv_line(object));
  if (events_) {
    object["learning_rate"] = rate_at(optimizer_settings(options_), r.step - 1);
    if (f.step_norm > 0) object.emplace("gradient_norm", std::sqrt(f.step_norm));
    events_->give(object);
  }
  const std::string words = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  {:.1f} samples/s  communication {:.1f} ms exposed, {:.1f} ms "
      "hidden",
      r.step, std::to_string(options_.steps).size(), options_.steps, f.loss, r.samples_per_s,
      1e3 * f.exposed, 1e3 * hidden);
  const double time = now() - began_;
  if (first_ < 0) first_ = r.step;
  if (bar_) {
    const double left = double(options_.steps - r.step) * time / double(r.step - first_ + 1);
    std::fputs(
        ("\r\033[K" + progress_line(r, options_.steps, left, terminal_columns() - 1)).c_str(),
        stderr);
    std::fflush(stderr);
  }
  if (r.validation > 0 || r.step == options_.steps || !std::isfinite(f.loss) ||
      time >= next_line_) {
    next_line_ = time + 5;
    line(r.validation > 0 ? words + fmt::format("  validation {:.4f}", r.validation) : words);
  }
}

}  // namespace tutti::train
