#include "trainer/report/screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "trainer/common/error.h"
#include "trainer/common/timeline.h"

namespace tutti::train {
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

namespace {

// A longer line could not be erased.
size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

Screen::Screen(const Options& options, bool shows)
    : options_(options), shows_(shows), bar_(shows && isatty(STDERR_FILENO)), began_(now()) {
  if (!shows || options.json.empty()) return;
  json_ =
      options.json == "-" ? stdout : std::fopen(options.json.c_str(), options.resume ? "a" : "w");
  if (!json_)
    throw BadInput(fmt::format("--json: cannot write {}: {}", options.json, std::strerror(errno)));
}

Screen::~Screen() {
  if (bar_) std::fputs("\r\033[K", stderr);
  if (json_ && json_ != stdout) std::fclose(json_);
}

void Screen::line(const std::string& text) {
  if (!shows_ || options_.json == "-") return;
  if (bar_) std::fputs("\r\033[K", stderr);
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Screen::record(const nlohmann::json& object) {
  if (!json_) return;
  std::fputs((object.dump() + "\n").c_str(), json_);
  if (std::fflush(json_) != 0 || std::ferror(json_) != 0)
    throw Failure(fmt::format("--json: cannot write {}: {}", options_.json, std::strerror(errno)));
}

void Screen::step(const StepRecord& r, const nlohmann::json& more) {
  if (!shows_) return;
  const StepFigures& f = r.figures;
  const double hidden = std::max(0.0, f.communication - f.exposed);
  nlohmann::json object = {{"step", r.step},
                           {"loss", number(f.loss)},
                           {"samples_per_s", number(r.samples_per_s)},
                           {"step_ms", 1e3 * r.seconds},
                           {"comm_exposed_ms", 1e3 * f.exposed},
                           {"comm_hidden_ms", 1e3 * hidden},
                           {"bytes_sent", number(std::round(f.volume.bytes))},
                           {"messages_sent", number(f.volume.messages)}};
  if (r.validation > 0) object["validation_loss"] = number(r.validation);
  if (f.gradient >= 0 || f.overflow) {
    object["gradient_norm"] = number(f.gradient);
    object["overflow"] = f.overflow;
  }
  if (options_.tp > 1) {
    object["tensor_bytes_sent"] = number(f.divided.bytes);
    object["tensor_messages_sent"] = number(f.divided.messages);
  }
  object.update(more);
  record(object);
  const std::string words = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  {:.1f} samples/s  communication {:.1f} ms exposed, {:.1f} ms "
      "hidden",
      r.step, std::to_string(options_.steps).size(), options_.steps, f.loss, r.samples_per_s,
      1e3 * f.exposed, 1e3 * hidden);
  if (bar_) {
    constexpr size_t cells = 20;
    const auto full =
        std::min(cells, size_t(double(cells) * double(r.step) / double(options_.steps)));
    const std::string bar =
        fmt::format("[{}{}] {}", std::string(full, '#'), std::string(cells - full, '.'), words);
    std::fputs(("\r\033[K" + bar.substr(0, terminal_columns() - 1)).c_str(), stderr);
    std::fflush(stderr);
  }
  const double time = now() - began_;
  if (r.validation > 0 || r.step == options_.steps || time >= next_line_) {
    next_line_ = time + 5;
    line(r.validation > 0 ? words + fmt::format("  validation {:.4f}", r.validation) : words);
  }
}

}  // namespace tutti::train
