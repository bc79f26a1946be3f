// Every wrong argument of every collective and message: INVALID with one sentence that says what is
// wrong, nothing is sent, and the communicator goes on working.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::Meeting;
using tutti::testing::on_comm;
using tutti::testing::sentence;

constexpr size_t huge = SIZE_MAX / 2;

struct Wrong {
  const char* what;  // the call, for the report
  const char* says;  // part of the sentence
  std::function<tutti_status(tutti_comm)> call;
};

// As rank 0 of two would make them.
std::vector<Wrong> wrong_calls() {
  static int32_t a[64], b[64];
  static const size_t two[] = {3, 2}, far[] = {0, 1}, apart[] = {0, 8}, big[] = {huge, 1};
  const auto in_place = const_cast<void*>(TUTTI_IN_PLACE);
  const auto type = TUTTI_INT32;
  const auto bad_type = static_cast<tutti_dtype>(9999);
  const auto bad_op = static_cast<tutti_op>(9999);
  std::vector<Wrong> all;
  const auto add = [&](const char* what, const char* says,
                       std::function<tutti_status(tutti_comm)> call) {
    all.push_back({what, says, std::move(call)});
  };
#define WRONG(says, call) add(#call, says, [=](tutti_comm c) { return call; })
  for (const auto& reduction : {tutti_allreduce, tutti_scan, tutti_exscan}) {
    WRONG("send buffer is NULL", reduction(nullptr, b, 4, type, TUTTI_SUM, c));
    WRONG("receive buffer is NULL", reduction(a, nullptr, 4, type, TUTTI_SUM, c));
    WRONG("not for the receive buffer", reduction(a, in_place, 4, type, TUTTI_SUM, c));
    WRONG("overlap", reduction(a, a + 3, 4, type, TUTTI_SUM, c));
    WRONG("unknown type 9999", reduction(a, b, 4, bad_type, TUTTI_SUM, c));
    WRONG("unknown operator 9999", reduction(a, b, 4, type, bad_op, c));
    WRONG("not defined on float32", reduction(a, b, 4, TUTTI_FLOAT32, TUTTI_BXOR, c));
    WRONG("more than memory can hold", reduction(a, b, huge, type, TUTTI_SUM, c));
  }
  WRONG("root 2 is not a rank; there are 2", tutti_reduce(a, b, 4, type, TUTTI_SUM, 2, c));
  WRONG("root -1 is not a rank", tutti_reduce(a, b, 4, type, TUTTI_SUM, -1, c));
  WRONG("receive buffer is NULL", tutti_reduce(a, nullptr, 4, type, TUTTI_SUM, 0, c));
  WRONG("send buffer is NULL", tutti_reduce(nullptr, nullptr, 4, type, TUTTI_SUM, 1, c));
  WRONG("only the root, rank 1, reduces in place",
        tutti_reduce(TUTTI_IN_PLACE, b, 4, type, TUTTI_SUM, 1, c));
  WRONG("unknown operator", tutti_reduce(a, nullptr, 4, type, bad_op, 1, c));

  WRONG("the buffer is NULL", tutti_broadcast(nullptr, 4, type, 0, c));
  WRONG("unknown type", tutti_broadcast(a, 4, bad_type, 0, c));
  WRONG("root 7 is not a rank", tutti_broadcast(a, 4, type, 7, c));

  WRONG("send buffer is NULL", tutti_allgather(nullptr, b, 4, type, c));
  WRONG("receive buffer is NULL", tutti_allgather(a, nullptr, 4, type, c));
  WRONG("overlap", tutti_allgather(a + 4, a, 4, type, c));
  WRONG("2 blocks of", tutti_allgather(a, b, size_t{1} << 60, type, c));
  WRONG("unknown type", tutti_allgather(a, b, 4, bad_type, c));
  WRONG("receive counts are NULL", tutti_allgatherv(a, 3, b, nullptr, nullptr, type, c));
  WRONG("send_count is 4, but counts[0] is 3", tutti_allgatherv(a, 4, b, two, nullptr, type, c));
  WRONG("receive blocks of ranks 0 and 1 overlap", tutti_allgatherv(a, 3, b, two, far, type, c));
  WRONG("receive block of rank 0", tutti_allgatherv(a, 3, b, big, nullptr, type, c));
  WRONG("receive buffer is NULL", tutti_allgatherv(a, 3, nullptr, two, nullptr, type, c));
  WRONG("send buffer is NULL", tutti_allgatherv(nullptr, 3, b, two, nullptr, type, c));
  WRONG("unknown type", tutti_allgatherv(a, 3, b, two, nullptr, bad_type, c));
  WRONG("overlap", tutti_allgatherv(b + 1, 3, b, two, nullptr, type, c));

  WRONG("root 2 is not a rank", tutti_gather(a, b, 4, type, 2, c));
  WRONG("receive buffer is NULL", tutti_gather(a, nullptr, 4, type, 0, c));
  WRONG("send buffer is NULL", tutti_gather(nullptr, nullptr, 4, type, 1, c));
  WRONG("only the root, rank 1, gathers in place", tutti_gather(TUTTI_IN_PLACE, b, 4, type, 1, c));
  WRONG("overlap", tutti_gather(b + 1, b, 4, type, 0, c));
  WRONG("unknown type", tutti_gather(a, b, 4, bad_type, 0, c));
  WRONG("root 2 is not a rank", tutti_gatherv(a, 3, b, two, nullptr, type, 2, c));
  WRONG("receive counts are NULL", tutti_gatherv(a, 3, b, nullptr, nullptr, type, 0, c));
  WRONG("receive blocks of ranks 0 and 1 overlap", tutti_gatherv(a, 3, b, two, far, type, 0, c));
  WRONG("only the root, rank 1, gathers in place",
        tutti_gatherv(TUTTI_IN_PLACE, 3, b, nullptr, nullptr, type, 1, c));
  WRONG("send buffer is NULL", tutti_gatherv(nullptr, 3, nullptr, nullptr, nullptr, type, 1, c));
  WRONG("unknown type", tutti_gatherv(a, 3, b, two, nullptr, bad_type, 0, c));

  WRONG("root 2 is not a rank", tutti_scatter(a, b, 4, type, 2, c));
  WRONG("send buffer is NULL", tutti_scatter(nullptr, b, 4, type, 0, c));
  WRONG("receive buffer is NULL", tutti_scatter(nullptr, nullptr, 4, type, 1, c));
  WRONG("not allowed as this call's send buffer", tutti_scatter(TUTTI_IN_PLACE, b, 4, type, 0, c));
  WRONG("only the root, rank 1, scatters in place",
        tutti_scatter(nullptr, in_place, 4, type, 1, c));
  WRONG("overlap", tutti_scatter(b, b + 1, 4, type, 0, c));
  WRONG("unknown type", tutti_scatter(a, b, 4, bad_type, 0, c));
  WRONG("root 2 is not a rank", tutti_scatterv(a, two, nullptr, b, 3, type, 2, c));
  WRONG("send counts are NULL", tutti_scatterv(a, nullptr, nullptr, b, 3, type, 0, c));
  WRONG("send block of rank 0", tutti_scatterv(a, big, nullptr, b, 3, type, 0, c));
  WRONG("send buffer is NULL", tutti_scatterv(nullptr, two, nullptr, b, 3, type, 0, c));
  WRONG("receive buffer is NULL",
        tutti_scatterv(nullptr, nullptr, nullptr, nullptr, 3, type, 1, c));
  WRONG("only the root, rank 1, scatters in place",
        tutti_scatterv(nullptr, nullptr, nullptr, in_place, 3, type, 1, c));

  WRONG("send buffer is NULL", tutti_reduce_scatter_block(nullptr, b, 4, type, TUTTI_SUM, c));
  WRONG("receive buffer is NULL", tutti_reduce_scatter_block(a, nullptr, 4, type, TUTTI_SUM, c));
  WRONG("overlap", tutti_reduce_scatter_block(a, a + 7, 4, type, TUTTI_SUM, c));
  WRONG("unknown operator", tutti_reduce_scatter_block(a, b, 4, type, bad_op, c));
  WRONG("not defined on float64", tutti_reduce_scatter_block(a, b, 4, TUTTI_FLOAT64, TUTTI_BOR, c));
  WRONG("unknown type", tutti_reduce_scatter_block(a, b, 4, bad_type, TUTTI_SUM, c));
  WRONG("send counts are NULL", tutti_reduce_scatter(a, b, nullptr, type, TUTTI_SUM, c));
  WRONG("send block of rank 0", tutti_reduce_scatter(a, b, big, type, TUTTI_SUM, c));
  WRONG("send buffer is NULL", tutti_reduce_scatter(nullptr, b, two, type, TUTTI_SUM, c));
  WRONG("receive buffer is NULL", tutti_reduce_scatter(a, nullptr, two, type, TUTTI_SUM, c));
  WRONG("overlap", tutti_reduce_scatter(a, a + 4, two, type, TUTTI_SUM, c));
  WRONG("unknown operator", tutti_reduce_scatter(a, b, two, type, bad_op, c));

  WRONG("send buffer is NULL", tutti_alltoall(nullptr, b, 4, type, c));
  WRONG("receive buffer is NULL", tutti_alltoall(a, nullptr, 4, type, c));
  WRONG("overlap", tutti_alltoall(a, a + 7, 4, type, c));
  WRONG("unknown type", tutti_alltoall(a, b, 4, bad_type, c));
  WRONG("2 blocks of", tutti_alltoall(a, b, size_t{1} << 60, type, c));
  WRONG("send counts are NULL", tutti_alltoallv(a, nullptr, nullptr, b, two, nullptr, type, c));
  WRONG("receive counts are NULL", tutti_alltoallv(a, two, nullptr, b, nullptr, nullptr, type, c));
  WRONG("receive blocks of ranks 0 and 1 overlap",
        tutti_alltoallv(a, two, nullptr, b, two, far, type, c));
  WRONG("send block of rank 0", tutti_alltoallv(a, big, nullptr, b, two, apart, type, c));
  WRONG("send buffer is NULL", tutti_alltoallv(nullptr, two, nullptr, b, two, nullptr, type, c));
  WRONG("receive buffer is NULL", tutti_alltoallv(a, two, nullptr, nullptr, two, nullptr, type, c));
  static const size_t one[] = {1, 2};
  WRONG("rank 0 sends itself 1 elements but expects 3",
        tutti_alltoallv(a, one, nullptr, b, two, nullptr, type, c));
  WRONG("overlap", tutti_alltoallv(a, two, nullptr, a + 4, two, nullptr, type, c));

  for (const int peer : {-2, 2}) {
    WRONG("is not a rank; there are 2", tutti_send(a, 1, type, peer, 0, c));
    WRONG("is not a rank; there are 2", tutti_recv(b, 1, type, peer, 0, c));
    WRONG("is not a rank", tutti_sendrecv(a, 1, peer, 0, b, 1, 1, 0, type, c));
    WRONG("is not a rank", tutti_sendrecv(a, 1, 1, 0, b, 1, peer, 0, type, c));
  }
  WRONG("cannot send to itself", tutti_send(a, 1, type, 0, 0, c));
  WRONG("tag -1 is negative", tutti_send(a, 1, type, 1, -1, c));
  WRONG("the buffer is NULL", tutti_recv(nullptr, 1, type, 1, 0, c));
  WRONG("unknown type", tutti_recv(b, 1, bad_type, 1, 0, c));
  WRONG("the buffer is NULL", tutti_sendrecv(nullptr, 1, 1, 0, b, 1, 1, 0, type, c));
  WRONG("tag -5 is negative", tutti_sendrecv(a, 1, 1, 0, b, 1, 1, -5, type, c));
  WRONG("overlap", tutti_sendrecv(a, 4, 1, 0, a + 2, 4, 1, 0, type, c));
  WRONG("unknown type", tutti_sendrecv(a, 4, 1, 0, b, 4, 1, 0, bad_type, c));
  WRONG("no group is open", tutti_group_end(c));
  static tutti_call_config bad_level = TUTTI_CALL_CONFIG_INIT;
  bad_level.level = static_cast<tutti_level>(9999);
  WRONG("unknown level 9999", tutti_allreduce_with(a, b, 4, type, TUTTI_SUM, c, &bad_level));
  WRONG("unknown level 9999", tutti_reduce_with(a, b, 4, type, TUTTI_SUM, 0, c, &bad_level));
  WRONG("unknown level 9999", tutti_scan_with(a, b, 4, type, TUTTI_SUM, c, &bad_level));
  WRONG("unknown level 9999", tutti_broadcast_with(a, 4, type, 0, c, &bad_level));

  static tutti_comm made;
  static size_t failed;
  static const int all_ranks[] = {0, 1}, twice[] = {1, 0, 1}, outside[] = {0, 2}, less[] = {0, -1},
                   without[] = {1};
  WRONG("nowhere to put the communicator", tutti_comm_split_host(c, 0, nullptr));
  WRONG("nowhere to put the communicator", tutti_comm_shrink(c, 0, nullptr));
  WRONG("the time limit is negative", tutti_comm_shrink(c, -1, &made));
  WRONG("nowhere to put the communicator", tutti_comm_grow(c, nullptr, 1, nullptr));
  WRONG("nowhere to put the failed ranks", tutti_comm_failed_ranks(c, nullptr, 1, &failed));
  WRONG("nowhere to put the failed ranks", tutti_comm_failed_ranks(c, nullptr, 0, nullptr));
  WRONG("there is no value to agree on", tutti_comm_agree(c, nullptr, 0));
  WRONG("nowhere to put the communicator", tutti_comm_create_group(c, all_ranks, 2, nullptr));
  WRONG("the list of ranks is NULL", tutti_comm_create_group(c, nullptr, 2, &made));
  WRONG("the list of ranks is empty", tutti_comm_create_group(c, all_ranks, 0, &made));
  WRONG("ranks[1], 2, is not a rank; there are 2", tutti_comm_create_group(c, outside, 2, &made));
  WRONG("ranks[1], -1, is not a rank", tutti_comm_create_group(c, less, 2, &made));
  WRONG("rank 1 is listed twice", tutti_comm_create_group(c, twice, 3, &made));
  WRONG("the caller, rank 0, is not in the list", tutti_comm_create_group(c, without, 1, &made));
#undef WRONG
  return all;
}

TEST(WrongArguments, AreNamedAndTheCommunicatorGoesOn) {
  const std::vector<Wrong> calls = wrong_calls();
  on_comm(2, "inproc", [&](int rank, tutti_comm comm) {
    if (rank == 0) {
      for (const Wrong& wrong : calls) {
        EXPECT_EQ(wrong.call(comm), TUTTI_INVALID) << wrong.what;
        EXPECT_NE(sentence(comm).find(wrong.says), std::string::npos)
            << wrong.what << " says: " << sentence(comm);
      }
    }
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST(WrongArguments, TheOnlyRanksTwoLengthsMustBeEqual) {
  on_comm(1, "inproc", [](int, tutti_comm comm) {
    const std::vector<int32_t> in = {1, 2, 3, 4};
    std::vector<int32_t> out(4);
    const size_t counts[] = {3};
    EXPECT_EQ(tutti_gatherv(in.data(), 2, out.data(), counts, nullptr, TUTTI_INT32, 0, comm),
              TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "the only rank's own length is 2, but counts[0] is 3");
    EXPECT_EQ(tutti_scatterv(in.data(), counts, nullptr, out.data(), 4, TUTTI_INT32, 0, comm),
              TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "the only rank's own length is 4, but counts[0] is 3");
    EXPECT_EQ(out, std::vector<int32_t>(4)) << "a refused call has written";
    EXPECT_EQ(tutti_gatherv(in.data(), 3, out.data(), counts, nullptr, TUTTI_INT32, 0, comm),
              TUTTI_OK);
    EXPECT_EQ(out, (std::vector<int32_t>{1, 2, 3, 0}));
    // In place a scattered block's own length is the root's.
    EXPECT_EQ(tutti_scatterv(out.data(), counts, nullptr, const_cast<void*>(TUTTI_IN_PLACE), 9,
                             TUTTI_INT32, 0, comm),
              TUTTI_OK);
  });
}

TEST(WrongArguments, AnAlgorithmThatTheCollectiveLacksIsRefusedWithTheListOfThoseItHas) {
  on_comm(2, "inproc", [](int, tutti_comm comm) {
    int32_t a[8] = {}, b[8] = {};
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "butterfly";
    EXPECT_EQ(tutti_alltoall_with(a, b, 1, TUTTI_INT32, comm, &config), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("there are: auto, direct, bruck"), std::string::npos)
        << sentence(comm);
    config.algorithm = "bruck";
    const size_t lengths[] = {1, 1};
    EXPECT_EQ(
        tutti_alltoallv_with(a, lengths, nullptr, b, lengths, nullptr, TUTTI_INT32, comm, &config),
        TUTTI_UNSUPPORTED);
    EXPECT_NE(sentence(comm).find("do not know how long they are"), std::string::npos)
        << sentence(comm);
    EXPECT_EQ(tutti_send_with(a, 1, TUTTI_INT32, 1, 0, comm, &config), TUTTI_INVALID);
  });
}

TEST(WrongArguments, OfACommunicatorsLevelAreNamed) {
  tutti_comm comm = nullptr;
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.level = static_cast<tutti_level>(9999);
  EXPECT_EQ(tutti_comm_create_from_env(&config, &comm), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "unknown level 9999");
  setenv("TUTTI_LEVEL", "highest", 1);
  EXPECT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(),
               "TUTTI_LEVEL is 'highest', but must be one of fast,layout,canonical,exact");
  unsetenv("TUTTI_LEVEL");
}

// What a rank does after a call was refused to it.
enum class Then : uint8_t { nothing, another_call, leaves, the_call };

class ARefusedCall : public ::testing::TestWithParam<std::tuple<const char*, Then>> {};

TEST_P(ARefusedCall, IsToldToThoseThatWaitForIt) {
  const auto [transport, then] = GetParam();
  const Meeting told;
  on_comm(3, transport, [&told, then = then](int rank, tutti_comm comm) {
    const std::vector<int32_t> in(3, rank);
    std::vector<int32_t> out(9);
    const size_t counts[] = {3, 3, 3};
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = then == Then::nothing ? 300 : 20'000;
    const auto gather = [&](size_t own) {
      return tutti_allgatherv_with(in.data(), own, out.data(), counts, nullptr, TUTTI_INT32, comm,
                                   &config);
    };
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    if (rank != 1) {
      const tutti_status status = gather(3);
      told.arrive();
      const std::string words = "; rank 1 was refused call 2: send_count is 5, but counts[1] is 3";
      if (then == Then::the_call) {
        EXPECT_EQ(status, TUTTI_OK) << sentence(comm);
        return;
      }
      EXPECT_EQ(status, then == Then::nothing        ? TUTTI_TIMEOUT
                        : then == Then::another_call ? TUTTI_MISMATCH
                                                     : TUTTI_PEER_FAILED)
          << sentence(comm);
      EXPECT_EQ(sentence(comm).rfind(words), sentence(comm).size() - words.size())
          << sentence(comm);
      return;
    }
    EXPECT_EQ(gather(5), TUTTI_INVALID);
    if (then == Then::nothing) return told.wait_for(2);
    if (then != Then::the_call) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    if (then == Then::another_call) {
      EXPECT_EQ(tutti_barrier(comm), TUTTI_MISMATCH) << sentence(comm);
    }
    if (then == Then::the_call) {
      EXPECT_EQ(gather(3), TUTTI_OK) << sentence(comm);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, ARefusedCall,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp"),
                                            ::testing::Values(Then::nothing, Then::another_call,
                                                              Then::leaves, Then::the_call)));

// Each of these is refused to rank 1 while the others make the right one.
struct Form {
  const char* name;
  // Of each rank; `wrong`: what is refused.
  std::function<tutti_status(tutti_comm, bool wrong, const tutti_call_config*)> call;
  const char* words;
};

const size_t three[] = {3, 3, 3};

tutti_status wait_for(tutti_status begun, tutti_request* request) {
  return begun == TUTTI_OK ? tutti_wait(request) : begun;
}

int32_t* results(size_t at) {
  static thread_local std::vector<int32_t> memory(18);
  return &memory[at];
}

std::vector<Form> forms() {
  static const std::vector<int32_t> in(9);
  const auto gather = [](tutti_comm c, bool wrong, const tutti_call_config* config,
                         tutti_request* request) {
    return tutti_iallgatherv(in.data(), wrong ? 5 : 3, results(0), three, nullptr, TUTTI_INT32, c,
                             config, request);
  };
  return {
      {"Nonblocking",
       [=](tutti_comm c, bool wrong, const tutti_call_config* config) {
         tutti_request request = nullptr;
         return wait_for(gather(c, wrong, config, &request), &request);
       },
       "; rank 1 was refused call 2: send_count is 5, but counts[1] is 3"},
      // Its number is known before those in front of it have ended, and what they wait for is not
      // told instead.
      {"NonblockingBehindOthers",
       [=](tutti_comm c, bool wrong, const tutti_call_config* config) {
         tutti_request requests[3] = {};
         if (!wrong) std::this_thread::sleep_for(std::chrono::milliseconds(150));
         tutti_status status = TUTTI_OK;
         for (tutti_request* one : {&requests[0], &requests[1]})
           EXPECT_EQ(
               tutti_iallreduce(in.data(), results(9), 3, TUTTI_INT32, TUTTI_SUM, c, config, one),
               TUTTI_OK);
         status = gather(c, wrong, config, &requests[2]);
         EXPECT_EQ(tutti_wait(&requests[0]), TUTTI_OK) << sentence(c);
         EXPECT_EQ(tutti_wait(&requests[1]), TUTTI_OK) << sentence(c);
         return wait_for(status, &requests[2]);
       },
       "; rank 1 was refused call 4: send_count is 5, but counts[1] is 3"},
      {"BlockingBehindOthers",
       [=](tutti_comm c, bool wrong, const tutti_call_config* config) {
         tutti_request request = nullptr;
         EXPECT_EQ(tutti_iallreduce(in.data(), results(9), 3, TUTTI_INT32, TUTTI_SUM, c, config,
                                    &request),
                   TUTTI_OK);
         const tutti_status status = tutti_allgatherv_with(in.data(), wrong ? 5 : 3, results(0),
                                                           three, nullptr, TUTTI_INT32, c, config);
         EXPECT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(c);
         return status;
       },
       "; rank 1 was refused call 3: send_count is 5, but counts[1] is 3"},
      {"Planned",
       [](tutti_comm c, bool wrong, const tutti_call_config* config) {
         tutti_call_config own = *config;
         if (wrong) own.algorithm = "bruck";
         return tutti_alltoallv_with(in.data(), three, nullptr, results(0), three, nullptr,
                                     TUTTI_INT32, c, &own);
       },
       "; rank 1 was refused call 2: "},
      {"PlannedNonblocking",
       [](tutti_comm c, bool wrong, const tutti_call_config* config) {
         tutti_call_config own = *config;
         if (wrong) own.algorithm = "no such";
         tutti_request request = nullptr;
         return wait_for(
             tutti_iallreduce(in.data(), results(0), 9, TUTTI_INT32, TUTTI_SUM, c, &own, &request),
             &request);
       },
       "; rank 1 was refused call 2: there is no allreduce algorithm \"no such\""},
  };
}

class AFormThatIsRefused : public ::testing::TestWithParam<std::tuple<const char*, size_t>> {};

TEST_P(AFormThatIsRefused, IsToldToThoseThatWaitForIt) {
  const auto [transport, index] = GetParam();
  const Form form = forms()[index];
  const Meeting told;
  on_comm(3, transport, [&](int rank, tutti_comm comm) {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 500;
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    const tutti_status status = form.call(comm, rank == 1, &config);
    if (rank == 1) {
      EXPECT_TRUE(status == TUTTI_INVALID || status == TUTTI_UNSUPPORTED) << sentence(comm);
      return told.wait_for(2);
    }
    told.arrive();
    EXPECT_EQ(status, TUTTI_TIMEOUT) << sentence(comm);
    EXPECT_NE(sentence(comm).find(form.words), std::string::npos) << sentence(comm);
  });
}

TEST_P(AFormThatIsRefused, CanBeMadeAgain) {
  const auto [transport, index] = GetParam();
  const Form form = forms()[index];
  on_comm(3, transport, [&](int rank, tutti_comm comm) {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    // What is in front of it would have been made already.
    const bool alone = std::string(form.words).find("call 2") != std::string::npos;
    if (rank == 1 && alone) {
      EXPECT_NE(form.call(comm, true, &config), TUTTI_OK);
    }
    EXPECT_EQ(form.call(comm, false, &config), TUTTI_OK) << sentence(comm);
    // Nor is it told of a later failure.
    if (rank == 1) return;
    config.timeout_ms = 200;
    EXPECT_NE(tutti_barrier_with(comm, &config), TUTTI_OK);
    EXPECT_EQ(sentence(comm).find("refused"), std::string::npos) << sentence(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(, AFormThatIsRefused,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp"),
                                            ::testing::Range(size_t{0}, forms().size())));

// A message that is refused to rank 1, which then does something else.
enum class Instead : uint8_t { nothing, a_barrier, leaves, the_message };

class ARefusedMessage : public ::testing::TestWithParam<std::tuple<const char*, Instead>> {};

struct Sent {
  int peer, tag;
  const char* words;
};

TEST_P(ARefusedMessage, IsToldToThoseThatWaitForIt) {
  const auto [transport, instead] = GetParam();
  for (const auto& [peer, tag, words] :
       {Sent{0, -1, "; rank 1 was refused a send to rank 0: tag -1 is negative"},
        Sent{3, 4, "; rank 1 was refused a send: peer 3 is not a rank; there are 3"}}) {
    for (const bool from_any : {false, true}) {
      const Meeting told;
      on_comm(
          3, transport,
          [&, instead = instead, peer = peer, tag = tag, words = words](int rank, tutti_comm comm) {
            tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
            const bool lost = instead == Instead::nothing || instead == Instead::a_barrier;
            config.timeout_ms = lost ? 250 : 20'000;
            int32_t value = rank;
            // Once rank 1 waits in a barrier it says for whom, which may be why somebody else
            // waits. Where it sends to rank 0 first, that finds the barrier in the message's place.
            const auto expect_reason = [&](const std::string& text) {
              const auto says = [&](const char* reason) {
                return text.find(reason) != std::string::npos;
              };
              const bool barrier =
                  instead == Instead::a_barrier &&
                  (says("which rank 0 has not entered") || says("but rank 1 calls barrier"));
              EXPECT_TRUE(barrier || text.find(words) != std::string::npos) << text;
            };
            ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
            if (rank == 1) {
              EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, peer, tag, comm), TUTTI_INVALID);
              if (instead == Instead::nothing) {
                told.wait_for(1);
              } else if (instead == Instead::the_message) {
                EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, 0, 4, comm), TUTTI_OK);
              }
            }
            if (rank == 0) {
              int source = 1;
              tutti_request request = nullptr;
              ASSERT_EQ(
                  from_any
                      ? tutti_irecv_any(&value, 1, TUTTI_INT32, 4, &source, comm, &config, &request)
                      : tutti_irecv(&value, 1, TUTTI_INT32, 1, 4, comm, &config, &request),
                  TUTTI_OK);
              const tutti_status status = tutti_wait(&request);
              told.arrive();
              if (instead == Instead::the_message) {
                EXPECT_EQ(status, TUTTI_OK) << sentence(comm);
                EXPECT_EQ(value, 1);
              } else {
                EXPECT_NE(status, TUTTI_OK) << sentence(comm);
                expect_reason(sentence(comm));
              }
            } else if (instead == Instead::a_barrier) {
              EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
              if (rank == 2) expect_reason(sentence(comm));
            }
            if (instead == Instead::the_message) {
              EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
            }
          });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ARefusedMessage,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp"),
                                            ::testing::Values(Instead::nothing, Instead::a_barrier,
                                                              Instead::leaves,
                                                              Instead::the_message)));

TEST(ARefusedMessageOfAnotherKind, IsToldToo) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (const int kind : {0, 1, 2}) {
      const Meeting told;
      on_comm(2, transport, [&](int rank, tutti_comm comm) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.timeout_ms = 300;
        // More than a link takes before it is received.
        std::vector<int32_t> values(kind == 0 ? 4'000'000 : 1);
        tutti_request request = nullptr;
        if (rank == 1) {
          const tutti_status refused =
              kind == 0 ? tutti_recv(nullptr, values.size(), TUTTI_INT32, 0, 4, comm)
              : kind == 1
                  ? tutti_isend(values.data(), 1, TUTTI_INT32, 0, -7, comm, nullptr, &request)
                  : tutti_sendrecv(values.data(), 1, 0, 4, values.data(), 1, 0, 4, TUTTI_INT32,
                                   comm);
          EXPECT_EQ(refused, TUTTI_INVALID);
          EXPECT_EQ(request, nullptr);
          return told.wait_for(1);
        }
        const tutti_status status =
            kind == 0
                ? tutti_send_with(values.data(), values.size(), TUTTI_INT32, 1, 4, comm, &config)
                : tutti_recv_with(values.data(), 1, TUTTI_INT32, 1, 4, comm, &config);
        told.arrive();
        EXPECT_EQ(status, TUTTI_TIMEOUT) << sentence(comm);
        const char* const words[] = {
            "; rank 1 was refused a receive from rank 0: the buffer is NULL",
            "; rank 1 was refused a send to rank 0: tag -7 is negative",
            "; rank 1 was refused a send to rank 0: the send and receive buffers overlap"};
        EXPECT_NE(sentence(comm).find(words[kind]), std::string::npos) << sentence(comm);
      });
    }
  }
}

// What is waited for is another rank's message, or has come since.
TEST(ARefusedMessageOfAnotherKind, IsNotToldToThoseThatItDoesNotConcern) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (const bool mended : {false, true}) {
      const Meeting told;
      on_comm(3, transport, [&told, mended](int rank, tutti_comm comm) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.timeout_ms = 300;
        int32_t value = rank;
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
        if (rank == 1) {
          EXPECT_EQ(tutti_send(nullptr, 1, TUTTI_INT32, 0, 4, comm), TUTTI_INVALID);
          if (mended) {
            EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, 0, 4, comm), TUTTI_OK);
          }
        }
        if (rank == 0) {
          if (mended) {
            EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 1, 4, comm), TUTTI_OK) << sentence(comm);
          }
          EXPECT_EQ(tutti_recv_with(&value, 1, TUTTI_INT32, mended ? 1 : 2, 4, comm, &config),
                    TUTTI_TIMEOUT)
              << sentence(comm);
          EXPECT_EQ(sentence(comm).find("refused"), std::string::npos) << sentence(comm);
          told.arrive();
        } else {
          told.wait_for(1);
        }
      });
    }
  }
}

TEST(Mismatch, IsNotPutDownToARankThatHasCorrectedItself) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      const std::vector<int32_t> in(5);
      std::vector<int32_t> out(9);
      const size_t counts[] = {3, 3, 3};
      const auto gather = [&](size_t own) {
        return tutti_allgatherv(in.data(), own, out.data(), counts, nullptr, TUTTI_INT32, comm);
      };
      if (rank == 1) {
        EXPECT_EQ(gather(5), TUTTI_INVALID);
      }
      // Until it has entered the call.
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_EQ(rank == 2 ? tutti_barrier(comm) : gather(3), TUTTI_MISMATCH) << sentence(comm);
      if (rank == 0) {
        EXPECT_EQ(sentence(comm).find("refused"), std::string::npos) << sentence(comm);
      }
    });
  }
}

TEST(Mismatch, OfAllToAllLengthsNamesBothRanksAndBothLengths) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      const std::vector<int32_t> in(30);
      std::vector<int32_t> out(30);
      std::vector<size_t> sent(3, 4), received(3, 4);
      if (rank == 1) sent[2] = 5;
      const tutti_status status = tutti_alltoallv(in.data(), sent.data(), nullptr, out.data(),
                                                  received.data(), nullptr, TUTTI_INT32, comm);
      if (rank == 2) {
        EXPECT_EQ(status, TUTTI_MISMATCH) << sentence(comm);
      }
      // The others hear of it, in this call or the next.
      if (status == TUTTI_OK) {
        EXPECT_EQ(tutti_barrier(comm), TUTTI_MISMATCH) << sentence(comm);
      }
      EXPECT_NE(sentence(comm).find("rank 1 sends 5 elements to rank 2, which expects 4"),
                std::string::npos)
          << sentence(comm);
    });
  }
}

TEST(Mismatch, OfGatheredAndScatteredLengthsNamesTheRank) {
  on_comm(3, "shm", [](int rank, tutti_comm comm) {
    const std::vector<int32_t> in(30);
    std::vector<int32_t> out(30);
    const std::vector<size_t> lengths = {2, 3, 4};
    const size_t own = rank == 2 ? 7 : lengths[size_t(rank)];
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    tutti_status status =
        tutti_gatherv(in.data(), own, out.data(), lengths.data(), nullptr, TUTTI_INT32, 0, comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    EXPECT_EQ(status, TUTTI_MISMATCH);
    EXPECT_NE(sentence(comm).find("rank 2 sends 7 elements to rank 0, which expects 4"),
              std::string::npos)
        << sentence(comm);
    status =
        tutti_scatterv(in.data(), lengths.data(), nullptr, out.data(), own, TUTTI_INT32, 0, other);
    if (status == TUTTI_OK) status = tutti_barrier(other);
    EXPECT_EQ(status, TUTTI_MISMATCH);
    EXPECT_NE(sentence(other).find("rank 0 sends 4 elements to rank 2, which expects 7"),
              std::string::npos)
        << sentence(other);
    tutti_comm_free(other);
  });
}

TEST(Mismatch, OfLengthsThatAllRanksPassIsNoticed) {
  for (const char* transport : {"inproc", "tcp"}) {
    on_comm(2, transport, [](int rank, tutti_comm comm) {
      const std::vector<int32_t> in(8);
      std::vector<int32_t> out(16);
      const std::vector<size_t> lengths = {size_t(rank == 0 ? 3 : 2), 3};
      tutti_status status = tutti_allgatherv(in.data(), lengths[size_t(rank)], out.data(),
                                             lengths.data(), nullptr, TUTTI_INT32, comm);
      if (status == TUTTI_OK) status = tutti_barrier(comm);
      EXPECT_EQ(status, TUTTI_MISMATCH);
      EXPECT_NE(sentence(comm).find("allgatherv of"), std::string::npos) << sentence(comm);
    });
  }
}

// Each thinks that only it has something, so nobody waits for anything.
TEST(Mismatch, OfLengthsIsNoticedAlsoWhereNobodyWaits) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(2, transport, [](int rank, tutti_comm comm) {
      const std::vector<int32_t> in(4);
      std::vector<int32_t> out(4);
      const std::vector<size_t> lengths = {size_t(rank == 0 ? 4 : 0), size_t(rank == 0 ? 0 : 4)};
      tutti_status status =
          tutti_allgatherv(in.data(), 4, out.data(), lengths.data(), nullptr, TUTTI_INT32, comm);
      if (status == TUTTI_OK) status = tutti_barrier(comm);
      EXPECT_EQ(status, TUTTI_MISMATCH) << sentence(comm);
    });
  }
}

}  // namespace
