#include "lib/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <vector>

#include "lib/schedule/prove.h"

namespace tutti::schedule {

namespace {

struct Colour {
  double red = 0, green = 0, blue = 0;  // 0 to 1
};

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, args...);
  return text;
}

std::string hex(const Colour& c) {
  const auto byte = [](double x) { return unsigned(std::lround(std::clamp(x, 0.0, 1.0) * 255)); };
  return format("#%02x%02x%02x", byte(c.red), byte(c.green), byte(c.blue));
}

// The chunks' hues go once round the colour circle; a single chunk is blue.
Colour chunk_colour(uint32_t chunk, uint32_t chunks) {
  const double hue = std::fmod(212.0 + 360.0 * chunk / chunks, 360.0) / 60.0;
  const double high = 0.78, low = 0.22;
  const double middle = low + (high - low) * (1 - std::fabs(std::fmod(hue, 2.0) - 1));
  switch (int(hue)) {
    case 0:
      return {high, middle, low};
    case 1:
      return {middle, high, low};
    case 2:
      return {low, high, middle};
    case 3:
      return {low, middle, high};
    case 4:
      return {middle, low, high};
    default:
      return {high, low, middle};
  }
}

Colour diluted(const Colour& c, double strength) {
  const auto mix = [&](double x) { return 1 - strength * (1 - x); };
  return {mix(c.red), mix(c.green), mix(c.blue)};
}

class Drawing {
 public:
  Drawing(const Algorithm& algorithm, uint32_t nranks, uint32_t root)
      : algorithm_(algorithm),
        nranks_(nranks),
        goal_(algorithm.collective, nranks, root),
        verdict_(prove(algorithm, nranks, root, &trace_)),
        chunks_(build(algorithm.emit, {.nranks = nranks, .root = root}).chunks) {
    std::sort(trace_.transfers.begin(), trace_.transfers.end(), [](const auto& a, const auto& b) {
      return std::tie(a.round, a.from, a.to) < std::tie(b.round, b.from, b.to);
    });
    cell_ = std::clamp(96.0 / chunks_, 3.0, 56.0);
    column_ = cell_ * chunks_ + std::max(34.0, 58.0 - chunks_);
    band_ = 52 + std::min(70.0, 3.0 * nranks_);
  }

  std::string svg() {
    const double right = std::max(x(nranks_) + 8, 700.0);
    const double bottom = y(verdict_.rounds) + bar_ + 84;
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\">\n",
        right, bottom, right, bottom);
    text_ +=
        "<style>.title{font-size:19px;font-weight:bold;fill:#1b1f24}"
        ".note{font-size:12px;fill:#57606a}.rank{font-size:13px;font-weight:bold;fill:#1b1f24;"
        "text-anchor:middle}.round{font-size:12px;fill:#57606a}</style>\n";
    text_ += format("<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", right, bottom);
    heading(right);
    for (const Trace::Transfer& transfer : trace_.transfers) arrow(transfer);
    states();
    legend(y(verdict_.rounds) + bar_ + 30);
    return text_ + "</svg>\n";
  }

 private:
  static constexpr double left_ = 84, top_ = 112, bar_ = 15;

  double x(uint32_t rank) const { return left_ + rank * column_; }  // of a rank's bar
  double y(uint32_t round) const { return top_ + round * (bar_ + band_); }
  double middle(uint32_t rank) const { return x(rank) + cell_ * chunks_ / 2; }

  void label(double at_x, double at_y, const char* kind, const std::string& words) {
    text_ +=
        format("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", at_x, at_y, kind) + words + "</text>\n";
  }

  void heading(double right) {
    const std::string root =
        is_rooted(algorithm_.collective) ? ", root " + std::to_string(goal_.root()) : "";
    const auto number = [](uint64_t n, const char* word) {
      return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
    };
    label(20, 32, "title",
          std::string(algorithm_.name) + " " + collective_name(algorithm_.collective) + ", " +
              number(nranks_, "rank") + root);
    label(20, 54, "note",
          number(verdict_.rounds, "round") + " (" + std::to_string(verdict_.rounds_multiport) +
              " with a port for every peer), " + number(verdict_.counts.messages, "message") +
              "; the busiest rank sends " + verdict_.counts.sent.text() + " and reduces " +
              verdict_.counts.reduced.text() + " vectors");
    for (uint32_t r = 0; r < nranks_; ++r) {
      label(middle(r), top_ - 16, "rank", (nranks_ <= 16 ? "rank " : "") + std::to_string(r));
    }
    label(20, y(0) + 12, "round", "start");
    for (uint32_t k = 1; k <= verdict_.rounds; ++k) {
      label(20, y(k) - band_ / 2 + 4, "round", "round " + std::to_string(k));
      text_ += format("<line x1=\"20\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eaeef2\"/>\n",
                      y(k) + bar_ / 2, right - 20, y(k) + bar_ / 2);
    }
  }

  // From under the sender's bar to over the receiver's, spread by the peer so that arrows of one
  // rank do not begin in one point.
  void arrow(const Trace::Transfer& transfer) {
    const auto port = [&](uint32_t own, uint32_t peer) {
      const double far = (double(peer) - own) / nranks_;
      return middle(own) + far * cell_ * chunks_ * 0.47;
    };
    const double x1 = port(transfer.from, transfer.to), x2 = port(transfer.to, transfer.from);
    const double y1 = y(transfer.round - 1) + bar_ + 2, y2 = y(transfer.round) - 3;
    const bool single = transfer.chunks.size() == 1;
    const std::string colour =
        single ? hex(chunk_colour(transfer.chunks[0], chunks_)) : std::string("#57606a");
    const double length = std::hypot(x2 - x1, y2 - y1);
    const double dx = (x2 - x1) / length, dy = (y2 - y1) / length;
    text_ += format(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
        "stroke-width=\"1.8\"%s/>\n",
        x1, y1, x2 - 6 * dx, y2 - 6 * dy, colour.c_str(),
        transfer.reduces ? "" : " stroke-dasharray=\"5 3\"");
    text_ += format("<path d=\"M%.1f,%.1f L%.1f,%.1f L%.1f,%.1f z\" fill=\"%s\"/>\n", x2, y2,
                    x2 - 8 * dx - 3.5 * dy, y2 - 8 * dy + 3.5 * dx, x2 - 8 * dx + 3.5 * dy,
                    y2 - 8 * dy - 3.5 * dx, colour.c_str());
    if (!single) load(transfer, x1 + (x2 - x1) * 0.3, y1 + (y2 - y1) * 0.3);
  }

  // Which chunks a message carries, as a small copy of the bar.
  void load(const Trace::Transfer& transfer, double at_x, double at_y) {
    const double cell = std::min(7.0, 42.0 / chunks_), width = cell * chunks_;
    text_ += format(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"8\" fill=\"#ffffff\" "
        "stroke=\"#57606a\" stroke-width=\"0.8\"/>\n",
        at_x - width / 2, at_y - 4, width);
    for (const uint32_t c : transfer.chunks) {
      text_ += format("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"8\" fill=\"%s\"/>\n",
                      at_x - width / 2 + c * cell, at_y - 4, cell,
                      hex(chunk_colour(c, chunks_)).c_str());
    }
  }

  // The vectors of all ranks at the start and after each round.
  void states() {
    std::vector<uint32_t> held(size_t(nranks_) * chunks_);
    for (uint32_t r = 0; r < nranks_; ++r) {
      for (uint32_t c = 0; c < chunks_; ++c) held[size_t(r) * chunks_ + c] = goal_.has(r, c);
    }
    std::stable_sort(trace_.changes.begin(), trace_.changes.end(),
                     [](const auto& a, const auto& b) { return a.round < b.round; });
    auto change = trace_.changes.begin();
    for (uint32_t round = 0; round <= verdict_.rounds; ++round) {
      for (; change != trace_.changes.end() && change->round <= round; ++change) {
        held[size_t(change->rank) * chunks_ + change->chunk] = change->contributions;
      }
      for (uint32_t r = 0; r < nranks_; ++r) {
        for (uint32_t c = 0; c < chunks_; ++c) {
          cell(x(r) + c * cell_, y(round), c, double(held[size_t(r) * chunks_ + c]) / whole(r));
        }
        text_ += format(
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
            "fill=\"none\" stroke=\"#8c959f\"/>\n",
            x(r), y(round), cell_ * chunks_, bar_);
      }
    }
  }

  // How many contributions a finished chunk of the rank has.
  uint32_t whole(uint32_t rank) const { return std::max(goal_.combined(rank), 1u); }

  void cell(double at_x, double at_y, uint32_t chunk, double share) {
    const double strength = share == 0 ? 0 : share >= 1 ? 1 : 0.12 + 0.5 * share;
    text_ +=
        format("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n", at_x,
               at_y, cell_, bar_, hex(diluted(chunk_colour(chunk, chunks_), strength)).c_str());
  }

  void legend(double at_y) {
    double at_x = 20;
    const auto entry = [&](double share, const char* words, double width) {
      cell_ = 22;
      cell(at_x, at_y, 0, share);
      text_ += format(
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"%.1f\" fill=\"none\" "
          "stroke=\"#8c959f\"/>\n",
          at_x, at_y, bar_);
      label(at_x + 29, at_y + 12, "note", words);
      at_x += width;
    };
    if (!reduces(goal_.collective())) {
      entry(0, "nothing yet", 120);
      entry(1, is_rooted(goal_.collective()) && goal_.blocks() == 1 ? "the root's vector" : "there",
            160);
    } else {
      entry(1.0 / std::max(2u, nranks_), "own contribution", 150);
      entry(0.6, "some", 84);
      entry(1, "all: finished", 130);
    }
    text_ += format(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#57606a\" "
        "stroke-width=\"1.8\"/>\n",
        at_x, at_y + 8, at_x + 26, at_y + 8);
    label(at_x + 33, at_y + 12, "note", "combined on arrival");
    at_x += 170;
    text_ += format(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#57606a\" "
        "stroke-width=\"1.8\" stroke-dasharray=\"5 3\"/>\n",
        at_x, at_y + 8, at_x + 26, at_y + 8);
    label(at_x + 33, at_y + 12, "note", "stored");
    label(20, at_y + 38, "note",
          chunks_ == 1 ? "The vector moves as a whole."
                       : "A colour is one of the " + std::to_string(chunks_) +
                             " chunks of the vector; grey arrows carry the chunks on their label.");
  }

  const Algorithm& algorithm_;
  uint32_t nranks_;
  Goal goal_;
  Trace trace_;
  Verdict verdict_;
  uint32_t chunks_;
  double cell_, column_, band_;
  std::string text_;
};

}  // namespace

std::string draw_svg(const Algorithm& algorithm, uint32_t nranks, uint32_t root) {
  return Drawing(algorithm, nranks, root).svg();
}

}  // namespace tutti::schedule
