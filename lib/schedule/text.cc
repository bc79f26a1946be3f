#include "lib/schedule/text.h"

#include <charconv>

namespace tutti::schedule {

namespace {

constexpr const char* kind_names[] = {"copy", "send", "recv", "recv_reduce", "reduce"};
constexpr const char* role_names[] = {"input", "output", "scratch"};
constexpr std::string_view joined_word = " joined";
constexpr uint32_t largest_number = 1 << 24;
constexpr size_t most_steps = 1 << 20;

std::string print(const Range& range) {
  return std::string(role_names[size_t(range.role)]) + "[" + std::to_string(range.begin) + ":" +
         std::to_string(range.end) + ")";
}

const char* print(Side side) { return side == Side::left ? "left" : "right"; }

// Parses a line from left to right; after the first mismatch everything fails.
class Line {
 public:
  explicit Line(std::string_view rest) : rest_(rest) {}

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return expected("\"" + std::string(word) + "\"");
    rest_.remove_prefix(word.size());
    return true;
  }
  bool number(uint32_t* out) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *out);
    if (error != std::errc() || *out > largest_number) {
      return expected("a number up to " + std::to_string(largest_number));
    }
    rest_.remove_prefix(size_t(end - rest_.data()));
    return true;
  }
  template <size_t n>
  bool one_of(const char* const (&names)[n], size_t* out) {
    // The longest name first: "recv" begins "recv_reduce".
    size_t best = n;
    for (size_t i = 0; i < n; ++i) {
      const std::string_view name = names[i];
      if (rest_.starts_with(name) &&
          (best == n || name.size() > std::string_view(names[best]).size())) {
        best = i;
      }
    }
    if (best == n) return expected("one of " + list(names));
    *out = best;
    rest_.remove_prefix(std::string_view(names[best]).size());
    return true;
  }
  bool range(Range* out) {
    size_t role = 0;
    if (!one_of(role_names, &role) || !take("[") || !number(&out->begin) || !take(":") ||
        !number(&out->end) || !take(")")) {
      return false;
    }
    out->role = Role(role);
    return out->begin < out->end || expected("a range that is not empty");
  }
  bool side(Side* out) {
    static constexpr const char* names[] = {"left", "right"};
    size_t which = 0;
    if (!one_of(names, &which)) return false;
    *out = Side(which);
    return true;
  }
  bool joined(bool* out) {
    *out = rest_.starts_with(joined_word);
    if (*out) rest_.remove_prefix(joined_word.size());
    return true;
  }
  bool require(bool truth, const char* what) { return truth || expected(what); }
  bool end() { return rest_.empty() || expected("the end of the line"); }

  const std::string& complaint() const { return complaint_; }

 private:
  template <size_t n>
  static std::string list(const char* const (&names)[n]) {
    std::string all;
    for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
  }
  bool expected(std::string what) {
    if (complaint_.empty()) complaint_ = std::move(what);
    return false;
  }

  std::string_view rest_;
  std::string complaint_;
};

bool parse_header(Line& line, Program* out) {
  return line.take("rank ") && line.number(&out->rank) && line.take(" of ") &&
         line.number(&out->nranks) && line.take(", ") && line.number(&out->chunks) &&
         line.take(" chunks, ") && line.number(&out->scratch_rows) && line.take(" scratch rows") &&
         line.end() &&
         line.require(out->nranks > 0 && out->chunks > 0, "a rank and a chunk at least");
}

bool parse_step(Line& line, Step* out) {
  size_t kind = 0;
  if (!line.one_of(kind_names, &kind) || !line.take(" ")) return false;
  out->kind = Kind(kind);
  switch (out->kind) {
    case Kind::copy:
      return line.range(&out->to) && line.take(" ") && line.range(&out->from) && line.end();
    case Kind::send:
      return line.number(&out->peer) && line.take(" ") && line.range(&out->from) &&
             line.joined(&out->joined) && line.end();
    case Kind::recv:
      return line.number(&out->peer) && line.take(" ") && line.range(&out->to) &&
             line.joined(&out->joined) && line.end();
    case Kind::recv_reduce:
      return line.number(&out->peer) && line.take(" ") && line.side(&out->side) && line.take(" ") &&
             line.range(&out->to) && line.joined(&out->joined) && line.end();
    case Kind::reduce:
      break;
  }
  return line.range(&out->to) && line.take(" ") && line.side(&out->side) && line.take(" ") &&
         line.range(&out->from) && line.end();
}

}  // namespace

std::string print(const Step& step) {
  const std::string peer = std::to_string(step.peer);
  const std::string_view joined = step.joined ? joined_word : "";
  switch (step.kind) {
    case Kind::copy:
      return "copy " + print(step.to) + " " + print(step.from);
    case Kind::send:
      return ("send " + peer + " " + print(step.from)).append(joined);
    case Kind::recv:
      return ("recv " + peer + " " + print(step.to)).append(joined);
    case Kind::recv_reduce:
      return ("recv_reduce " + peer + " " + print(step.side) + " " + print(step.to)).append(joined);
    case Kind::reduce:
      return "reduce " + print(step.to) + " " + print(step.side) + " " + print(step.from);
  }
  return "?";
}

std::string print(const Program& program) {
  std::string text = "rank " + std::to_string(program.rank) + " of " +
                     std::to_string(program.nranks) + ", " + std::to_string(program.chunks) +
                     " chunks, " + std::to_string(program.scratch_rows) + " scratch rows\n";
  for (const Step& step : program.steps) text += print(step) + "\n";
  return text;
}

std::string print(const std::vector<Program>& programs) {
  std::string text;
  for (const Program& program : programs) text += print(program);
  return text;
}

Status parse(std::string_view text, std::vector<Program>* out) {
  out->clear();
  size_t steps = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t newline = text.find('\n');
    const std::string_view words = text.substr(0, newline);
    text = newline == std::string_view::npos ? std::string_view() : text.substr(newline + 1);
    if (words.empty() || words.starts_with('#')) continue;
    Line line(words);
    bool good = false;
    if (out->empty() || words.starts_with("rank ")) {
      Program program;
      good = parse_header(line, &program);
      out->push_back(std::move(program));
    } else {
      Step step;
      good = parse_step(line, &step);
      out->back().steps.push_back(step);
      ++steps;
    }
    if (!good) {
      return {TUTTI_INVALID, "line " + std::to_string(number) + ": expected " + line.complaint()};
    }
    if (steps > most_steps) {
      return {TUTTI_INVALID, "line " + std::to_string(number) + ": expected at most " +
                                 std::to_string(most_steps) + " steps"};
    }
  }
  if (out->empty()) return {TUTTI_INVALID, "line 1: expected \"rank \""};
  return {};
}

Status parse(std::string_view text, Program* out) {
  std::vector<Program> programs;
  TUTTI_TRY(parse(text, &programs));
  if (programs.size() != 1) {
    return {TUTTI_INVALID,
            "expected the program of one rank, found " + std::to_string(programs.size())};
  }
  *out = std::move(programs[0]);
  return {};
}

}  // namespace tutti::schedule
