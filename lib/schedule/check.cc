#include "lib/schedule/check.h"

#include <algorithm>
#include <vector>

#include "lib/schedule/layout.h"

namespace tutti::schedule {

namespace {

std::string wrong_range(const Program& program, const Range& range) {
  const uint64_t rows = range.role == Role::scratch ? program.scratch_rows : 1;
  if (range.begin >= range.end) return "its range is empty";
  if (range.end > rows * program.chunks) return "its range is out of bounds";
  if (column(range, program.chunks) + range.size() > program.chunks) {
    return "its range crosses the end of a scratch row";
  }
  return {};
}

std::string wrong_step(const Program& program, const Step& step) {
  const bool message = !has_from(step.kind) || !has_to(step.kind);
  if (message && step.peer == program.rank) return "it is a message to itself";
  if (message && step.peer >= program.nranks) return "there is no such peer";
  if (has_to(step.kind) && step.to.role == Role::input) return "it writes the input";
  for (const Range* range : {&step.from, &step.to}) {
    if (range == &step.from ? !has_from(step.kind) : !has_to(step.kind)) continue;
    if (std::string wrong = wrong_range(program, *range); !wrong.empty()) return wrong;
  }
  if (message) return {};
  if (step.from.size() != step.to.size() ||
      column(step.from, program.chunks) != column(step.to, program.chunks)) {
    return "its operands are different chunks of the vector";
  }
  if (step.from.overlaps(step.to)) return "it reads what it is writing";
  return {};
}

// Whether `step` can continue the message of `last`, the step before it in its lane.
bool continues(const Step& step, const Step* last) {
  if (has_to(step.kind) && has_from(step.kind)) return false;  // no message
  return last != nullptr && last->kind == step.kind && last->peer == step.peer &&
         last->side == step.side;
}

}  // namespace

std::optional<Fault> misshapen_step(const Program& program) {
  const Step* last_sent = nullptr;
  const Step* last_incoming = nullptr;
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    std::string wrong = wrong_step(program, step);
    const Step*& last = step.kind == Kind::send ? last_sent : last_incoming;
    if (wrong.empty() && step.joined && !continues(step, last)) {
      wrong = "it is joined to no message before it";
    }
    if (!wrong.empty()) return Fault{s, std::move(wrong)};
    last = &step;
  }
  return std::nullopt;
}

std::optional<Fault> undefined_read(const Program& program, const Goal& goal) {
  const Layout layout(program);
  std::vector<bool> written(layout.cells(), false);
  std::vector<bool> has(program.chunks);
  for (uint32_t c = 0; c < program.chunks; ++c) has[c] = goal.has(program.rank, c);
  std::copy(has.begin(), has.end(), written.begin());
  const auto all_written = [&](const Range& range) {
    if (range.role == Role::input) {
      return std::find(has.begin() + range.begin, has.begin() + range.end, false) ==
             has.begin() + range.end;
    }
    const auto first = written.begin() + layout.first(range);
    return std::find(first, first + range.size(), false) == first + range.size();
  };
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if ((has_from(step.kind) && !all_written(step.from)) ||
        (reads_to(step.kind) && !all_written(step.to))) {
      return Fault{s, "it reads what nobody has written"};
    }
    if (has_to(step.kind)) {
      std::fill_n(written.begin() + layout.first(step.to), step.to.size(), true);
    }
  }
  return std::nullopt;
}

std::optional<Fault> overwritten_input(const Program& program) {
  std::vector<bool> written(program.chunks, false);
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (has_from(step.kind) && step.from.role == Role::input) {
      const auto first = written.begin() + step.from.begin;
      if (std::find(first, first + step.from.size(), true) != first + step.from.size()) {
        return Fault{s, "it reads the input where the output was written; in place that is gone"};
      }
    }
    if (has_to(step.kind) && step.to.role == Role::output) {
      std::fill_n(written.begin() + step.to.begin, step.to.size(), true);
    }
  }
  return std::nullopt;
}

}  // namespace tutti::schedule
