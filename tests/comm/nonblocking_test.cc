// Calls beside their caller: many in flight, in order, on several communicators, moved on by
// whoever waits or by the progress thread; and what is said when they cannot end.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

// What rank `rank` of the comm puts into call `call`, and the sum over ranks.
std::vector<int64_t> input_of(int rank, size_t call, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), int64_t(rank) * 1000 + int64_t(call));
  return values;
}
std::vector<int64_t> sum_of(int nranks, size_t call, size_t count) {
  std::vector<int64_t> total(count, 0);
  for (int rank = 0; rank < nranks; ++rank) {
    const std::vector<int64_t> one = input_of(rank, call, count);
    for (size_t i = 0; i < count; ++i) total[i] += one[i];
  }
  return total;
}

class Nonblocking : public ::testing::TestWithParam<const char*> {};

TEST_P(Nonblocking, ManyAreInFlightAndEndInAnyOrderOfWaits) {
  constexpr size_t calls = 40;
  for (const int nranks : {1, 2, 3, 5}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      std::vector<std::vector<int64_t>> in(calls), out(calls);
      std::vector<tutti_request> requests(calls, nullptr);
      const auto count_of = [](size_t call) {
        return call * call * 37 % 5000 + (call == 7) * 200'000;
      };
      for (size_t call = 0; call < calls; ++call) {
        in[call] = input_of(rank, call, count_of(call));
        out[call].assign(count_of(call), -1);
        ASSERT_EQ(tutti_iallreduce(in[call].data(), out[call].data(), count_of(call), TUTTI_INT64,
                                   TUTTI_SUM, comm, nullptr, &requests[call]),
                  TUTTI_OK)
            << sentence(comm);
      }
      std::vector<size_t> order(calls);
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), std::mt19937(unsigned(rank)));
      for (const size_t call : order) {
        ASSERT_EQ(tutti_wait(&requests[call]), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(requests[call], nullptr);
        EXPECT_EQ(out[call], sum_of(nranks, call, count_of(call)));
      }
    });
  }
}

TEST_P(Nonblocking, TestMovesThemOnToTheirEnd) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    const size_t count = 300'000;
    const std::vector<int64_t> in = input_of(rank, 0, count);
    std::vector<int64_t> out(count);
    tutti_request request = nullptr;
    ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm, nullptr,
                               &request),
              TUTTI_OK);
    int ended = 0;
    while (ended == 0) ASSERT_EQ(tutti_test(&request, &ended), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(out, sum_of(3, 0, count));
    ended = 0;
    EXPECT_EQ(tutti_test(&request, &ended), TUTTI_OK);
    EXPECT_EQ(ended, 1) << "of no request";
  });
}

// Two ranks send to each other, and read once something of their own is taken; both wait for a
// third on another communicator, which waits for them on this one.
TEST_P(Nonblocking, ExchangesMoveOnWhileRanksWaitElsewhere) {
  on_comm(4, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "butterfly";
    config.timeout_ms = 10'000;
    for (size_t call = 0; call < 20; ++call) {
      const size_t count = call % 2 == 0 ? 10 : 4000;
      const std::vector<int64_t> in = input_of(rank, call, count);
      std::vector<int64_t> out(count);
      tutti_request request = nullptr;
      ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm,
                                 &config, &request),
                TUTTI_OK);
      if (rank == 2) {
        ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
      }
      ASSERT_EQ(tutti_barrier_with(other, &config), TUTTI_OK) << sentence(other);
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(out, sum_of(4, call, count));
    }
    EXPECT_EQ(tutti_comm_free(other), TUTTI_OK);
  });
}

TEST_P(Nonblocking, BlockingCallsRunBehindWhatIsInFlight) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    int64_t first = rank, sum = 0, second = 0;
    tutti_request request = nullptr;
    ASSERT_EQ(tutti_iallreduce(&first, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &request),
              TUTTI_OK);
    ASSERT_EQ(tutti_allreduce(&first, &second, 1, TUTTI_INT64, TUTTI_MAX, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(second, 2);
    EXPECT_EQ(sum, 3) << "it has ended with what came after it";
    ASSERT_EQ(tutti_wait(&request), TUTTI_OK);
    // So do messages and what they make: a communicator.
    ASSERT_EQ(tutti_ibarrier(comm, nullptr, &request), TUTTI_OK);
    tutti_comm made = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &made), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_wait(&request), TUTTI_OK);
    ASSERT_EQ(tutti_barrier(made), TUTTI_OK);
    ASSERT_EQ(tutti_comm_free(made), TUTTI_OK);
  });
}

TEST_P(Nonblocking, MessagesNextToEachOtherRunAtOnce) {
  constexpr int nranks = 4;
  constexpr size_t count = 400'000;  // more than any buffer in between holds
  on_comm(nranks, GetParam(), [](int rank, tutti_comm comm) {
    const int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
    const std::vector<int64_t> mine(count, rank);
    std::vector<int64_t> from_left(count, -1), from_right(count, -1);
    std::vector<tutti_request> requests(4, nullptr);
    // Sends first: one after the other they would wait for ever.
    ASSERT_EQ(tutti_isend(mine.data(), count, TUTTI_INT64, left, 1, comm, nullptr, &requests[0]),
              TUTTI_OK);
    ASSERT_EQ(tutti_isend(mine.data(), count, TUTTI_INT64, right, 2, comm, nullptr, &requests[1]),
              TUTTI_OK);
    ASSERT_EQ(
        tutti_irecv(from_left.data(), count, TUTTI_INT64, left, 2, comm, nullptr, &requests[2]),
        TUTTI_OK);
    ASSERT_EQ(
        tutti_irecv(from_right.data(), count, TUTTI_INT64, right, 1, comm, nullptr, &requests[3]),
        TUTTI_OK);
    int64_t value = rank, greatest = -1;
    ASSERT_EQ(tutti_allreduce(&value, &greatest, 1, TUTTI_INT64, TUTTI_MAX, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(greatest, nranks - 1);
    ASSERT_EQ(tutti_waitall(requests.size(), requests.data()), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(from_left, std::vector<int64_t>(count, left));
    EXPECT_EQ(from_right, std::vector<int64_t>(count, right));
  });
}

TEST_P(Nonblocking, WaitanyGivesWhatHasEndedAndSaysWhenNothingIsLeft) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    int64_t in = rank, late = -1, soon = -1;
    std::vector<tutti_request> requests(3, nullptr);
    // Of the first rank 1 begins its part only after rank 0 has found the end of the second.
    if (rank == 0) {
      ASSERT_EQ(
          tutti_iallreduce(&in, &late, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &requests[0]),
          TUTTI_OK);
    }
    ASSERT_EQ(tutti_iallreduce(&in, &soon, 1, TUTTI_INT64, TUTTI_SUM, other, nullptr, &requests[2]),
              TUTTI_OK);
    size_t index = 99;
    ASSERT_EQ(tutti_waitany(requests.size(), requests.data(), &index), TUTTI_OK) << sentence(other);
    EXPECT_EQ(index, 2u);
    EXPECT_EQ(soon, 1);
    ASSERT_EQ(tutti_barrier(other), TUTTI_OK) << sentence(other);
    if (rank == 1) {
      ASSERT_EQ(
          tutti_iallreduce(&in, &late, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &requests[0]),
          TUTTI_OK);
    }
    ASSERT_EQ(tutti_waitany(requests.size(), requests.data(), &index), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(index, 0u);
    EXPECT_EQ(late, 1);
    ASSERT_EQ(tutti_waitany(requests.size(), requests.data(), &index), TUTTI_OK);
    EXPECT_EQ(index, TUTTI_NO_REQUEST);
    ASSERT_EQ(tutti_comm_free(other), TUTTI_OK);
  });
}

// MPI's rule of progress: whoever waits for one communicator moves the others on.
TEST_P(Nonblocking, WaitsOnTwoCommunicatorsInOppositeOrderEnd) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    constexpr size_t count = 200'000;
    const std::vector<int64_t> in = input_of(rank, 0, count);
    std::vector<int64_t> a(count), b(count);
    tutti_request requests[2] = {};
    for (int i = 0; i < 2; ++i) {
      tutti_comm const which = (i == 0) == (rank == 0) ? comm : other;
      ASSERT_EQ(tutti_iallreduce(in.data(), which == comm ? a.data() : b.data(), count, TUTTI_INT64,
                                 TUTTI_SUM, which, nullptr, &requests[i]),
                TUTTI_OK);
    }
    ASSERT_EQ(tutti_wait(&requests[1]), TUTTI_OK);
    ASSERT_EQ(tutti_wait(&requests[0]), TUTTI_OK);
    EXPECT_EQ(a, sum_of(2, 0, count));
    EXPECT_EQ(b, a);
    // A blocking call moves others on too.
    int64_t one = 1, two = 0;
    ASSERT_EQ(tutti_iallreduce(in.data(), a.data(), count, TUTTI_INT64, TUTTI_SUM, comm, nullptr,
                               &requests[0]),
              TUTTI_OK);
    if (rank == 1) {
      ASSERT_EQ(tutti_wait(&requests[0]), TUTTI_OK);
    }
    ASSERT_EQ(tutti_allreduce(&one, &two, 1, TUTTI_INT64, TUTTI_SUM, other), TUTTI_OK);
    if (rank == 0) {
      ASSERT_EQ(tutti_wait(&requests[0]), TUTTI_OK);
    }
    EXPECT_EQ(two, 2);
    ASSERT_EQ(tutti_comm_free(other), TUTTI_OK);
  });
}

TEST_P(Nonblocking, TwoThreadsOnTwoCommunicatorsDoNotDisturbEachOther) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    const auto work = [rank](tutti_comm mine, size_t count) {
      for (size_t call = 0; call < 200; ++call) {
        const std::vector<int64_t> in = input_of(rank, call, count);
        std::vector<int64_t> blocking(count), beside(count);
        tutti_request request = nullptr;
        ASSERT_EQ(tutti_iallreduce(in.data(), beside.data(), count, TUTTI_INT64, TUTTI_SUM, mine,
                                   nullptr, &request),
                  TUTTI_OK);
        if (call % 3 == 0) {
          ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(mine);
        }
        ASSERT_EQ(tutti_allreduce(in.data(), blocking.data(), count, TUTTI_INT64, TUTTI_SUM, mine),
                  TUTTI_OK)
            << sentence(mine);
        ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(mine);
        ASSERT_EQ(beside, sum_of(2, call, count));
        ASSERT_EQ(blocking, beside);
      }
    };
    std::thread second([&] { work(other, 3000); });
    work(comm, 10);
    second.join();
    ASSERT_EQ(tutti_comm_free(other), TUTTI_OK);
  });
}

TEST_P(Nonblocking, PersistentCallsStartAgainAndAgain) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    const size_t count = 1000;
    std::vector<int64_t> in(count), out(count), parts(3 * count);
    const size_t counts[3] = {count, count, count};
    tutti_request requests[2] = {};
    ASSERT_EQ(tutti_allreduce_init(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm,
                                   nullptr, &requests[0]),
              TUTTI_OK);
    {
      std::vector<size_t> gone(counts, counts + 3);
      ASSERT_EQ(tutti_allgatherv_init(in.data(), count, parts.data(), gone.data(), nullptr,
                                      TUTTI_INT64, comm, nullptr, &requests[1]),
                TUTTI_OK);
      gone.assign(3, 77);  // they were copied
    }
    for (size_t call = 0; call < 50; ++call) {
      std::ranges::copy(input_of(rank, call, count), in.begin());
      ASSERT_EQ(tutti_startall(2, requests), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(tutti_start(requests[0]), TUTTI_INVALID);
      EXPECT_EQ(sentence(comm), "the request is in flight; wait for it before the next start");
      EXPECT_EQ(tutti_request_free(&requests[0]), TUTTI_INVALID);
      ASSERT_EQ(tutti_waitall(2, requests), TUTTI_OK) << sentence(comm);
      ASSERT_NE(requests[0], nullptr);
      EXPECT_EQ(tutti_wait(&requests[0]), TUTTI_OK) << "at once";
      EXPECT_EQ(out, sum_of(3, call, count));
      for (int r = 0; r < 3; ++r) {
        const std::vector<int64_t> part = input_of(r, call, count);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), parts.begin() + ptrdiff_t(r * count)));
      }
    }
    ASSERT_EQ(tutti_request_free(&requests[0]), TUTTI_OK);
    EXPECT_EQ(requests[0], nullptr);
    ASSERT_EQ(tutti_request_free(&requests[1]), TUTTI_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Nonblocking,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

// As on_comm(), with a progress thread.
void on_progress_comm(int nranks, const char* transports,
                      const std::function<void(int, tutti_comm)>& body) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK) << tutti_last_error();
  tutti::testing::on_threads(nranks, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transports;
    config.progress_thread = 1;
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    body(rank, comm);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

// A look at what the library is writing: what is seen is only used to wait, so that no call of the
// library, which would move things on, is needed.
[[gnu::no_sanitize("thread")]] int64_t glance(const int64_t& at) {
  return *const_cast<const volatile int64_t*>(&at);
}

TEST(ProgressThread, MovesCallsOnWhileNobodyLooks) {
  for (const char* const transport : {"inproc", "tcp"}) {
    std::atomic<int> there{0};
    on_progress_comm(2, transport, [&](int rank, tutti_comm comm) {
      const size_t count = 500'000;
      const std::vector<int64_t> in = input_of(rank, 0, count);
      std::vector<int64_t> out(count, -1);
      tutti_request request = nullptr;
      ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm,
                                 nullptr, &request),
                TUTTI_OK);
      // Neither rank calls the library now. Long enough for the slowest machine.
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      const int64_t last = sum_of(2, 0, count).back();
      while (glance(out.back()) != last && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(glance(out.back()), last);
      ++there;
      while (there != 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(out, sum_of(2, 0, count));
    });
  }
}

TEST(ProgressThread, LetsBlockingAndOtherCallsThrough) {
  on_progress_comm(3, "inproc", [](int rank, tutti_comm comm) {
    for (size_t call = 0; call < 300; ++call) {
      const size_t count = call * 13 % 2000 + 1;
      const std::vector<int64_t> in = input_of(rank, call, count);
      std::vector<int64_t> out(count), again(count);
      tutti_request request = nullptr;
      ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), count, TUTTI_INT64, TUTTI_SUM, comm,
                                 nullptr, &request),
                TUTTI_OK);
      ASSERT_EQ(tutti_allreduce(in.data(), again.data(), count, TUTTI_INT64, TUTTI_SUM, comm),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(out, sum_of(3, call, count));
      ASSERT_EQ(again, out);
    }
  });
}

// ---------------------------------------------------------------- what cannot end, and bad input

TEST(Failure, OfOneInFlightEndsThemAllAndNamesTheCall) {
  on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    int64_t in = rank, out = 0;
    tutti_call_config brief = TUTTI_CALL_CONFIG_INIT;
    brief.timeout_ms = 200;
    tutti_request requests[2] = {};
    if (rank == 0) {
      for (tutti_request& request : requests) {
        ASSERT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm, &brief, &request),
                  TUTTI_OK);
      }
      EXPECT_EQ(tutti_waitall(2, requests), TUTTI_TIMEOUT);
      EXPECT_EQ(requests[0], nullptr);
      EXPECT_EQ(requests[1], nullptr);
      EXPECT_NE(sentence(comm).find("in call 1, allreduce of 1 int64, sum"), std::string::npos)
          << sentence(comm);
      EXPECT_NE(sentence(comm).find("rank 0 waited for rank 1"), std::string::npos);
      EXPECT_EQ(sentence(comm), tutti_last_error());
    } else {
      // Comes too late: all that the first needs is there, the second finds out.
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      for (tutti_request& request : requests) {
        ASSERT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &request),
                  TUTTI_OK);
      }
      EXPECT_EQ(tutti_waitall(2, requests), TUTTI_TIMEOUT);
    }
  });
}

TEST(Failure, MismatchedCallsInFlightAreBothNamed) {
  on_comm(2, "shm", [](int rank, tutti_comm comm) {
    std::vector<int64_t> in(64), out(64);
    tutti_request request = nullptr;
    ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), rank == 0 ? 64 : 32, TUTTI_INT64, TUTTI_SUM,
                               comm, nullptr, &request),
              TUTTI_OK);
    EXPECT_EQ(tutti_wait(&request), TUTTI_MISMATCH);
    EXPECT_NE(sentence(comm).find("64"), std::string::npos) << sentence(comm);
    EXPECT_NE(sentence(comm).find("32"), std::string::npos) << sentence(comm);
  });
}

TEST(Failure, AnAbortEndsWaits) {
  on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    int64_t in = rank, out = 0;
    tutti_request request = nullptr;
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      tutti_comm_abort(comm, "no more");
      return;
    }
    ASSERT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &request),
              TUTTI_OK);
    EXPECT_EQ(tutti_wait(&request), TUTTI_ABORTED);
    EXPECT_NE(sentence(comm).find("no more"), std::string::npos) << sentence(comm);
  });
}

TEST(Failure, ACommunicatorWithCallsInFlightIsNotFreed) {
  on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    int64_t in = rank, out = 0;
    tutti_request request = nullptr;
    if (rank == 0) {
      ASSERT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &request),
                TUTTI_OK);
      EXPECT_EQ(tutti_comm_free(comm), TUTTI_INVALID);
      EXPECT_STREQ(tutti_last_error(),
                   "1 call is still in flight; wait for what you began before you free the "
                   "communicator");
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm), TUTTI_OK);
    }
  });
}

TEST(Failure, ARequestOutlivesItsCommunicator) {
  tutti_comm comm = nullptr;
  ASSERT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_OK) << tutti_last_error();
  int64_t in = 1, out = 0;
  tutti_request request = nullptr;
  ASSERT_EQ(tutti_allreduce_init(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, comm, nullptr, &request),
            TUTTI_OK);
  ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  EXPECT_EQ(tutti_start(request), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "the communicator of the request has been freed");
  EXPECT_EQ(tutti_request_free(&request), TUTTI_OK);
}

TEST(BadInput, OfRequestsIsRefused) {
  tutti_comm comm = nullptr;
  ASSERT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_OK) << tutti_last_error();
  int64_t in = 1, out = 0;
  const auto begin = [&](tutti_request* request, size_t count = 1,
                         const tutti_call_config* config = nullptr) {
    return tutti_iallreduce(&in, &out, count, TUTTI_INT64, TUTTI_SUM, comm, config, request);
  };
  EXPECT_EQ(begin(nullptr), TUTTI_INVALID);
  EXPECT_EQ(sentence(comm), "there is nowhere to put the request");
  tutti_request request = reinterpret_cast<tutti_request>(&in);
  EXPECT_EQ(begin(&request, size_t(-1)), TUTTI_INVALID);
  EXPECT_EQ(request, nullptr) << "there is none after a failure";
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = "sorcery";
  EXPECT_EQ(begin(&request, 1, &config), TUTTI_INVALID);
  EXPECT_NE(sentence(comm).find("there is no allreduce algorithm \"sorcery\""), std::string::npos);
  EXPECT_EQ(tutti_iallreduce(&in, &out, 1, TUTTI_INT64, TUTTI_SUM, nullptr, nullptr, &request),
            TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "the communicator is NULL");

  ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
  EXPECT_EQ(begin(&request), TUTTI_INVALID);
  EXPECT_EQ(sentence(comm), "a call between tutti_group_begin() and _end() that is no message");
  EXPECT_EQ(tutti_irecv(&out, 1, TUTTI_INT64, 0, 0, comm, nullptr, &request), TUTTI_INVALID);
  ASSERT_EQ(tutti_group_cancel(comm), TUTTI_OK);
  EXPECT_EQ(tutti_isend(&in, 1, TUTTI_INT64, 3, 0, comm, nullptr, &request), TUTTI_INVALID);
  EXPECT_EQ(sentence(comm), "peer 3 is not a rank; there are 1");

  EXPECT_EQ(tutti_wait(nullptr), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "the request is NULL");
  EXPECT_EQ(tutti_start(nullptr), TUTTI_INVALID);
  int ended = 0;
  EXPECT_EQ(tutti_test(nullptr, &ended), TUTTI_INVALID);
  EXPECT_EQ(tutti_test(&request, nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_waitall(1, nullptr), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "the list of requests is NULL");
  EXPECT_EQ(tutti_waitany(0, nullptr, nullptr), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "there is nowhere to put the index");
  EXPECT_EQ(tutti_waitall(0, nullptr), TUTTI_OK);

  ASSERT_EQ(begin(&request), TUTTI_OK);
  EXPECT_EQ(tutti_start(request), TUTTI_INVALID);
  EXPECT_EQ(sentence(comm), "only a request of an _init function can be started");
  EXPECT_EQ(tutti_wait(&request), TUTTI_OK);
  EXPECT_EQ(out, 1);
  ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
}

}  // namespace
