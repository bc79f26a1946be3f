// Every collective of the C API against a plain oracle: all algorithms, rank counts, roots,
// lengths, in place or not; chosen by hand, and at random with counter-examples made small.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/collective_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/with_ucx.h"

namespace {

using namespace tutti::testing;

// The algorithms that may serve the collective under this name.
std::vector<std::string> names_for(const std::string& name) {
  std::vector<std::string> names = algorithms_of(family_of(name));
  // Only the ends of a block know its length, so nobody can pass it on.
  if (name == "gatherv" || name == "scatterv" || name == "alltoallv") {
    std::erase_if(names, [](const std::string& n) { return n == "binomial" || n == "bruck"; });
  }
  return names;
}

bool rooted(const std::string& name) {
  const std::string family = family_of(name);
  return family == "reduce" || family == "broadcast" || family == "gather" || family == "scatter";
}

void run_all(int nranks, const char* transport, const std::vector<size_t>& counts) {
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    int form = 0;  // each in its turn
    for (const std::string& name : collective_names()) {
      for (const std::string& algorithm : names_for(name)) {
        for (int root = 0; root<(rooted(name) ? nranks : 1); root += nranks> 8 ? 7 : 1) {
          for (const size_t count : counts) {
            for (const bool in_place : {false, true}) {
              Case c{name,
                     algorithm,
                     nranks,
                     root,
                     {count, count / 2, 0, 3 * count},
                     count % 3,
                     in_place,
                     TUTTI_SUM,
                     Form(++form % 3)};
              ASSERT_EQ(run_case(c, rank, comm), "") << c;
            }
          }
        }
      }
    }
  });
}

class Collectives : public ::testing::TestWithParam<const char*> {};

TEST_P(Collectives, AreRightForEveryAlgorithmAndRoot) {
  // What a stream does is the same for all numbers of ranks, and workers of ucx are dear.
  const int most = std::string(GetParam()) == "ucx" ? 3 : 8;
  for (const int nranks : sanitized ? std::vector{1, 2, 5} : std::vector{1, 2, 3, 4, 5, 8}) {
    if (nranks <= most) run_all(nranks, GetParam(), {0, 1, 17, 5000});
  }
}

TEST_P(Collectives, MoveMoreThanTheBuffersInBetweenHold) { run_all(3, GetParam(), {400'001}); }

INSTANTIATE_TEST_SUITE_P(Transports, Collectives,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

TEST(ManyRanks, AreServedByEveryAlgorithm) {
  for (const int nranks : sanitized ? std::vector{7, 16} : std::vector{7, 12, 16, 33}) {
    run_all(nranks, "inproc", {0, 5});
  }
}

RC_GTEST_PROP(RandomCalls, InARowOnOneCommunicatorAreAllRight, ()) {
  const int nranks = *rc::gen::inRange(1, 7);
  const std::string transport = *rc::gen::elementOf(std::vector<std::string>{"inproc", "shm"});
  std::vector<Case> cases;
  const size_t calls = *rc::gen::inRange<size_t>(1, 8);
  for (size_t i = 0; i < calls; ++i) {
    Case c;
    c.name = *rc::gen::elementOf(collective_names());
    c.algorithm = *rc::gen::elementOf(names_for(c.name));
    c.nranks = nranks;
    c.root = rooted(c.name) ? *rc::gen::inRange(0, nranks) : 0;
    c.lengths =
        *rc::gen::container<std::vector<size_t>>(size_t(nranks), rc::gen::inRange<size_t>(0, 3000));
    c.gap = *rc::gen::inRange<size_t>(0, 4);
    c.in_place = *rc::gen::arbitrary<bool>();
    c.form = *rc::gen::element(Form::blocking, Form::nonblocking, Form::persistent);
    c.op = *rc::gen::element(TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_BXOR);
    cases.push_back(std::move(c));
  }
  std::vector<std::string> wrong(static_cast<size_t>(nranks));
  on_comm(nranks, transport.c_str(), [&](int rank, tutti_comm comm) {
    for (const Case& c : cases) {
      std::string& found = wrong[size_t(rank)];
      if (!found.empty()) return;
      found = run_case(c, rank, comm);
    }
  });
  for (const std::string& found : wrong) {
    if (!found.empty()) RC_LOG(found);
  }
  for (const Case& c : cases) RC_LOG() << c << std::endl;
  for (const std::string& found : wrong) RC_ASSERT(found == "");
}

}  // namespace
