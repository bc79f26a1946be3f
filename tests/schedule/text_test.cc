// Schedules as text: print and parse are inverse; what is no schedule is refused with its line.
#include "lib/schedule/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "algorithms/registry.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

TEST(Text, ParseIsTheInverseOfPrintForEveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const uint32_t nranks : {1, 2, 3, 5, 8, 13, 16}) {
      const Programs programs = programs_of(algorithm, nranks, nranks / 2);
      const std::string text = print(programs);
      Programs parsed;
      const Status status = parse(text, &parsed);
      ASSERT_TRUE(status.ok()) << algorithm.name << ": " << status.text();
      EXPECT_EQ(parsed, programs) << algorithm.name;
      EXPECT_EQ(print(parsed), text);
    }
  }
}

Range some_range() {
  const auto begin = *rc::gen::inRange<uint32_t>(0, 1000);
  return {*rc::gen::element(Role::input, Role::output, Role::scratch), begin,
          begin + *rc::gen::inRange<uint32_t>(1, 50)};
}

Step some_step() {
  Step step;
  step.kind =
      *rc::gen::element(Kind::copy, Kind::send, Kind::recv, Kind::recv_reduce, Kind::reduce);
  const bool message =
      step.kind == Kind::send || step.kind == Kind::recv || step.kind == Kind::recv_reduce;
  if (step.kind == Kind::recv_reduce || step.kind == Kind::reduce) {
    step.side = *rc::gen::element(Side::left, Side::right);
  }
  if (message) step.peer = *rc::gen::inRange<uint32_t>(0, 5000);
  if (step.kind != Kind::send) step.to = some_range();
  if (step.kind != Kind::recv && step.kind != Kind::recv_reduce) step.from = some_range();
  return step;
}

RC_GTEST_PROP(Text, ParseIsTheInverseOfPrintForAnySteps, ()) {
  Programs programs(*rc::gen::inRange<size_t>(1, 4));
  for (uint32_t r = 0; r < programs.size(); ++r) {
    programs[r] = {r,
                   uint32_t(programs.size()),
                   *rc::gen::inRange<uint32_t>(1, 1000),
                   *rc::gen::inRange<uint32_t>(0, 9),
                   {}};
    for (auto steps = *rc::gen::inRange(0, 20); steps > 0; --steps) {
      programs[r].steps.push_back(some_step());
    }
  }
  Programs parsed;
  RC_ASSERT(parse(print(programs), &parsed).ok());
  RC_ASSERT(parsed == programs);
}

RC_GTEST_PROP(Text, WhatParsesOfSpoiltTextPrintsAndParsesAgain, ()) {
  std::string text = print(programs_of(allreduce("butterfly"), 3));
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  text[at] = *rc::gen::arbitrary<char>();
  Programs parsed, again;
  if (!parse(text, &parsed).ok()) return;
  RC_ASSERT(parse(print(parsed), &again).ok());
  RC_ASSERT(again == parsed);
}

TEST(Text, LeavesOutCommentsAndEmptyLines) {
  Program program;
  ASSERT_TRUE(parse("# by hand\nrank 0 of 2, 1 chunks, 0 scratch rows\n\n# to the other\n"
                    "send 1 output[0:1)\n",
                    &program)
                  .ok());
  EXPECT_EQ(program.steps.size(), 1u);
}

TEST(Text, RefusesWhatIsNoScheduleWithTheLineAndWhatIsAllowed) {
  const std::string header = "rank 0 of 2, 4 chunks, 0 scratch rows\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "line 1"},
      {"hello", "line 1: expected \"rank \""},
      {"rank 0 of 0, 4 chunks, 0 scratch rows", "line 1: expected a rank and a chunk"},
      {"rank 0 of 2, 0 chunks, 0 scratch rows", "line 1: expected a rank and a chunk"},
      {"rank 0 of 2, 99999999999 chunks, 0 scratch rows", "a number up to"},
      {header + "sned 1 output[0:1)", "line 2: expected one of copy, send, recv"},
      {header + "send 1 outptu[0:1)", "one of input, output, scratch"},
      {header + "send 1 output[1:1)", "not empty"},
      {header + "send 1 output[2:1)", "not empty"},
      {header + "send -1 output[0:1)", "a number"},
      {header + "send 1 output[0:1)\nreduce output[0:1) middle input[0:1)",
       "line 3: expected one of left"},
      {header + "recv 1 output[0:1) trailing", "the end of the line"},
      {header + "copy output[0:1)", "expected \" \""},
  };
  for (const auto& [text, complaint] : cases) {
    Programs programs;
    const Status status = parse(text, &programs);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << text;
    EXPECT_NE(status.text().find(complaint), std::string::npos) << text << " -> " << status.text();
  }
}

TEST(Text, RefusesTextsOfTooManySteps) {
  std::string text = "rank 0 of 2, 1 chunks, 0 scratch rows\n";
  for (size_t i = 0; i <= size_t{1} << 20; ++i) text += "send 1 output[0:1)\n";
  Program program;
  EXPECT_EQ(parse(text, &program).code(), TUTTI_INVALID);
}

TEST(Text, OfSeveralRanksIsNoTextOfOne) {
  Program program;
  EXPECT_EQ(parse(print(programs_of(allreduce("ring"), 2)), &program).code(), TUTTI_INVALID);
}

}  // namespace
}  // namespace tutti::schedule
