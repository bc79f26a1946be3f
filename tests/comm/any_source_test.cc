// Receives from any rank: who sends is found and named, each message goes to the receive that it is
// for, whatever else is sent and received, and no rank is kept waiting by the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

void pause_for(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// One that is begun, with what it receives into.
struct FromAny {
  std::vector<int32_t> got;
  int source = -1;
  tutti_request request = nullptr;

  void begin(tutti_comm comm, size_t count, int tag, int64_t timeout_ms = 0) {
    got.assign(count, -1);
    source = -1;
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = timeout_ms;
    ASSERT_EQ(
        tutti_irecv_any(got.data(), count, TUTTI_INT32, tag, &source, comm, &config, &request),
        TUTTI_OK)
        << sentence(comm);
  }
  tutti_status wait() { return tutti_wait(&request); }
};

void send(tutti_comm comm, const std::vector<int32_t>& values, int to, int tag) {
  ASSERT_EQ(tutti_send(values.data(), values.size(), TUTTI_INT32, to, tag, comm), TUTTI_OK)
      << sentence(comm);
}
void send(tutti_comm comm, int32_t value, int to, int tag) {
  send(comm, std::vector<int32_t>{value}, to, tag);
}
int32_t receive(tutti_comm comm, int from, int tag) {
  int32_t value = -1;
  EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, from, tag, comm), TUTTI_OK) << sentence(comm);
  return value;
}

class AnySource : public ::testing::TestWithParam<const char*> {};

TEST_P(AnySource, EveryMessageArrivesAndItsSenderIsNamed) {
  constexpr int nranks = 4, rounds = 5;
  for (const size_t count : {1, 12, 13, 5'000, 300'000}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank != 0) {
        for (int32_t round = 0; round < rounds; ++round) {
          pause_for((rank * 7 + round * 3) % 5);
          send(comm, std::vector<int32_t>(count, rank * 100 + round), 0, 5);
        }
        return;
      }
      std::vector<int32_t> rounds_of(nranks);
      for (int i = 0; i < rounds * (nranks - 1); ++i) {
        FromAny one;
        one.begin(comm, count, 5);
        ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
        ASSERT_TRUE(one.source > 0 && one.source < nranks) << one.source;
        const int32_t round = rounds_of[size_t(one.source)]++;
        EXPECT_EQ(one.got, std::vector<int32_t>(count, one.source * 100 + round));
      }
      EXPECT_EQ(rounds_of, (std::vector<int32_t>{0, rounds, rounds, rounds}));
    });
  }
}

TEST_P(AnySource, AllRanksReceiveFromAllAtOnce) {
  constexpr int nranks = 4;
  constexpr size_t count = 40'000;
  on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<FromAny> ins(nranks - 1);
    for (FromAny& in : ins) in.begin(comm, count, 1);
    const std::vector<int32_t> mine(count, rank);
    std::vector<tutti_request> outs;
    for (int peer = 0; peer < nranks; ++peer) {
      if (peer == rank) continue;
      ASSERT_EQ(tutti_isend(mine.data(), count, TUTTI_INT32, peer, 1, comm, nullptr,
                            &outs.emplace_back()),
                TUTTI_OK);
    }
    std::vector<int> sources;
    for (FromAny& in : ins) {
      ASSERT_EQ(in.wait(), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(in.got, std::vector<int32_t>(count, in.source));
      sources.push_back(in.source);
    }
    std::sort(sources.begin(), sources.end());
    EXPECT_EQ(std::adjacent_find(sources.begin(), sources.end()), sources.end());
    EXPECT_EQ(std::count(sources.begin(), sources.end(), rank), 0);
    ASSERT_EQ(tutti_waitall(outs.size(), outs.data()), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_P(AnySource, OtherTagsCountsAndTypesAreLeftAlone) {
  on_comm(4, GetParam(), [](int rank, tutti_comm comm) {
    const std::vector<int32_t> two = {rank * 10, rank * 10 + 1};
    if (rank == 1) {
      send(comm, two, 0, 6);
      send(comm, two, 0, 5);
    } else if (rank == 2) {
      send(comm, 2, 0, 5);
    } else if (rank == 3) {
      const float value = 3;
      ASSERT_EQ(tutti_send(&value, 1, TUTTI_FLOAT32, 0, 5, comm), TUTTI_OK);
      pause_for(60);
      send(comm, two, 0, 5);
    } else {
      FromAny one;
      one.begin(comm, 2, 5);
      // Only what rank 3 sends last fits, and that is behind another message.
      float value = 0;
      ASSERT_EQ(tutti_recv(&value, 1, TUTTI_FLOAT32, 3, 5, comm), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(one.source, 3);
      EXPECT_EQ(one.got, (std::vector<int32_t>{30, 31}));
      EXPECT_EQ(value, 3);
      EXPECT_EQ(receive(comm, 2, 5), 2);
      std::vector<int32_t> got(2);
      ASSERT_EQ(tutti_recv(got.data(), 2, TUTTI_INT32, 1, 6, comm), TUTTI_OK) << sentence(comm);
      one.begin(comm, 2, 5);
      ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(one.source, 1);
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

// A receive from the same rank that is made before gets the first message, also where the other one
// is waited for first.
TEST_P(AnySource, ReceivesMadeBeforeComeFirst) {
  for (const bool late : {false, true}) {
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 1) {
        if (late) pause_for(30);
        send(comm, 1, 0, 5);
        send(comm, 2, 0, 5);
      } else if (rank == 0) {
        if (!late) pause_for(30);
        int32_t first = -1;
        tutti_request request = nullptr;
        ASSERT_EQ(tutti_irecv(&first, 1, TUTTI_INT32, 1, 5, comm, nullptr, &request), TUTTI_OK);
        FromAny second;
        second.begin(comm, 1, 5);
        ASSERT_EQ(second.wait(), TUTTI_OK) << sentence(comm);
        ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(first, 1);
        EXPECT_EQ(second.got[0], 2);
        EXPECT_EQ(second.source, 1);
      }
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

// Also while they leave what comes to a third one to look at first.
TEST_P(AnySource, ReceivesMadeBeforeComeFirstBehindOthers) {
  constexpr int32_t rounds = 300;
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 1) {
      for (int32_t round = 0; round < rounds; ++round) {
        EXPECT_EQ(receive(comm, 0, 7), round);
        send(comm, 2 * round, 0, 5);
        send(comm, 2 * round + 1, 0, 5);
      }
    } else if (rank == 2) {
      send(comm, receive(comm, 0, 8), 0, 9);
    } else {
      FromAny others;
      others.begin(comm, 1, 9);
      for (int32_t round = 0; round < rounds; ++round) {
        int32_t first = -1;
        tutti_request request = nullptr;
        ASSERT_EQ(tutti_irecv(&first, 1, TUTTI_INT32, 1, 5, comm, nullptr, &request), TUTTI_OK);
        FromAny second;
        second.begin(comm, 1, 5);
        send(comm, round, 1, 7);
        ASSERT_EQ(second.wait(), TUTTI_OK) << sentence(comm);
        ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
        ASSERT_EQ(first, 2 * round);
        ASSERT_EQ(second.got[0], 2 * round + 1);
      }
      send(comm, 77, 2, 8);
      ASSERT_EQ(others.wait(), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(others.got[0], 77);
      EXPECT_EQ(others.source, 2);
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_P(AnySource, ReceivesMadeLaterTakeWhatIsLeft) {
  for (const int when : {0, 1, 2}) {
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 1) {
        if (when != 0) pause_for(30);
        send(comm, 1, 0, 5);
        if (when == 2) pause_for(30);
        send(comm, 2, 0, 5);
      } else if (rank == 0) {
        if (when == 0) pause_for(30);
        FromAny first;
        first.begin(comm, 1, 5);
        EXPECT_EQ(receive(comm, 1, 5), 2);
        ASSERT_EQ(first.wait(), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(first.got[0], 1);
        EXPECT_EQ(first.source, 1);
      }
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

// The peer's message is for the receive that was made later, and is waited for while the first one
// finds nothing.
TEST_P(AnySource, AReceiveMadeLaterOvertakesOneThatFindsNothing) {
  for (const int delay : {0, 30}) {
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 1) {
        pause_for(delay);
        send(comm, std::vector<int32_t>(100'000, 7), 0, 6);
        send(comm, 8, 2, 1);
      } else if (rank == 2) {
        const int32_t value = receive(comm, 1, 1);  // so rank 1 has been served
        send(comm, value, 0, 5);
      } else {
        FromAny any;
        any.begin(comm, 1, 5);
        std::vector<int32_t> got(100'000);
        ASSERT_EQ(tutti_recv(got.data(), got.size(), TUTTI_INT32, 1, 6, comm), TUTTI_OK)
            << sentence(comm);
        EXPECT_EQ(got, std::vector<int32_t>(100'000, 7));
        ASSERT_EQ(any.wait(), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(any.source, 2);
        EXPECT_EQ(any.got[0], 8);
      }
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

// Ranks that are a collective call ahead have sent pieces of it.
TEST_P(AnySource, PiecesOfCollectiveCallsAreLeftAlone) {
  constexpr int nranks = 4;
  for (const size_t count : {1, 50'000}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      std::vector<int32_t> in(count, rank), out(count);
      for (int call = 0; call < 6; ++call) {
        const int sender = 1 + call % 3;
        if (rank == sender) {
          pause_for(10);
          send(comm, std::vector<int32_t>(count, call), 0, 0);
        } else if (rank == 0) {
          FromAny one;
          one.begin(comm, count, 0);
          ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
          EXPECT_EQ(one.source, sender);
          EXPECT_EQ(one.got, std::vector<int32_t>(count, call));
        }
        ASSERT_EQ(tutti_allreduce(in.data(), out.data(), count, TUTTI_INT32, TUTTI_SUM, comm),
                  TUTTI_OK)
            << sentence(comm);
        EXPECT_EQ(out, std::vector<int32_t>(count, 6));
      }
    });
  }
}

TEST_P(AnySource, RanksAreServedInTurn) {
  constexpr int nranks = 4, each = 4;
  std::barrier sent(nranks);
  on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
    if (rank != 0) {
      for (int32_t i = 0; i < each; ++i) send(comm, i, 0, 5);
      sent.arrive_and_wait();
    } else {
      sent.arrive_and_wait();
      pause_for(50);
      for (int32_t i = 0; i < each; ++i) {
        std::vector<int> served;
        for (int turn = 1; turn < nranks; ++turn) {
          FromAny one;
          one.begin(comm, 1, 5);
          ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
          EXPECT_EQ(one.got[0], i);
          served.push_back(one.source);
        }
        std::sort(served.begin(), served.end());
        EXPECT_EQ(served, (std::vector<int>{1, 2, 3}));
      }
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

// They have no place in the order of what is sent, but numbers of their own.
TEST_P(AnySource, MessagesWithoutElementsAreInNobodysWay) {
  for (const bool first : {false, true}) {
    on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 1) {
        if (first) send(comm, std::vector<int32_t>(), 0, 9);
        send(comm, 1, 0, 5);
        if (!first) send(comm, std::vector<int32_t>(), 0, 9);
        send(comm, 2, 0, 5);
        send(comm, 3, 0, 5);
      } else {
        FromAny one, two;
        one.begin(comm, 1, 5);
        ASSERT_EQ(tutti_recv(nullptr, 0, TUTTI_INT32, 1, 9, comm), TUTTI_OK);
        ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(one.got[0], 1);
        EXPECT_EQ(receive(comm, 1, 5), 2);
        two.begin(comm, 1, 5);
        ASSERT_EQ(two.wait(), TUTTI_OK) << sentence(comm);
        EXPECT_EQ(two.got[0], 3);
      }
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

// Receives from named ranks before, then from any rank, then from named ranks again; what senders
// send of the last two is shuffled.
TEST_P(AnySource, MixturesGoWhereTheyBelong) {
  constexpr int nranks = 4, batches = 30;
  const auto count_of = [](int tag) { return size_t(tag % 3 == 2 ? 20'000 : 1 + tag % 3); };
  // The tags that rank `from` sends in order in a batch; the first `named` to named receives.
  struct Plan {
    std::vector<int> before, after, any, order;
  };
  const auto plan_of = [](int from, int batch) {
    std::mt19937 random(unsigned(from * 1000 + batch));
    Plan plan;
    const auto some = [&](std::vector<int>* tags, int base) {
      for (unsigned n = random() % 4; n > 0; --n) tags->push_back(base + int(random() % 4));
    };
    some(&plan.before, 0);
    some(&plan.after, 0);
    some(&plan.any, 100);
    std::vector<bool> is_any(plan.after.size() + plan.any.size());
    std::fill_n(is_any.begin(), plan.any.size(), true);
    std::shuffle(is_any.begin(), is_any.end(), random);
    plan.order = plan.before;
    size_t any = 0, after = 0;
    for (const bool it_is : is_any)
      plan.order.push_back(it_is ? plan.any[any++] : plan.after[after++]);
    return plan;
  };
  on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
    for (int batch = 0; batch < batches; ++batch) {
      std::mt19937 random(unsigned(rank * 7919 + batch));
      const int root = batch % nranks;
      if (random() % 3 == 0) pause_for(int(random() % 4));
      if (rank != root) {
        int32_t number = rank * 1000;
        for (const int tag : plan_of(rank, batch).order) {
          if (random() % 4 == 0) pause_for(1);
          send(comm, std::vector<int32_t>(count_of(tag), number++), root, tag);
        }
      } else {
        struct Named {
          int from, tag;
          std::vector<int32_t> got;
          tutti_request request = nullptr;
        };
        std::vector<Named> named;
        const auto receive_from = [&](int from, const std::vector<int>& tags) {
          for (const int tag : tags) named.push_back({from, tag, {}, nullptr});
        };
        std::vector<int> any_tags;
        std::vector<Plan> plans;
        for (int from = 0; from < nranks; ++from) {
          plans.push_back(from == root ? Plan() : plan_of(from, batch));
          receive_from(from, plans.back().before);
          any_tags.insert(any_tags.end(), plans.back().any.begin(), plans.back().any.end());
        }
        const size_t before = named.size();
        for (int from = 0; from < nranks; ++from) receive_from(from, plans[size_t(from)].after);
        std::shuffle(any_tags.begin(), any_tags.end(), random);
        const auto begin_named = [&](size_t i) {
          Named& one = named[i];
          one.got.assign(count_of(one.tag), -1);
          ASSERT_EQ(tutti_irecv(one.got.data(), one.got.size(), TUTTI_INT32, one.from, one.tag,
                                comm, nullptr, &one.request),
                    TUTTI_OK);
        };
        for (size_t i = 0; i < before; ++i) begin_named(i);
        std::vector<FromAny> anys(any_tags.size());
        for (size_t i = 0; i < anys.size(); ++i)
          anys[i].begin(comm, count_of(any_tags[i]), any_tags[i]);
        for (size_t i = before; i < named.size(); ++i) begin_named(i);

        std::vector<size_t> waits(named.size() + anys.size());
        std::iota(waits.begin(), waits.end(), size_t{0});
        std::shuffle(waits.begin(), waits.end(), random);
        for (const size_t i : waits) {
          ASSERT_EQ(
              i < named.size() ? tutti_wait(&named[i].request) : anys[i - named.size()].wait(),
              TUTTI_OK)
              << sentence(comm);
        }
        // What is sent with one tag is received in order by those that take it.
        std::map<std::pair<int, int>, std::vector<int32_t>> expected, got;
        for (int from = 0; from < nranks; ++from) {
          int32_t number = from * 1000;
          for (const int tag : plans[size_t(from)].order) expected[{from, tag}].push_back(number++);
        }
        const auto take = [&](int from, int tag, const std::vector<int32_t>& values) {
          ASSERT_EQ(values, std::vector<int32_t>(values.size(), values[0]));
          got[{from, tag}].push_back(values[0]);
        };
        for (const Named& one : named) take(one.from, one.tag, one.got);
        for (size_t i = 0; i < anys.size(); ++i) take(anys[i].source, any_tags[i], anys[i].got);
        EXPECT_EQ(got, expected) << "batch " << batch;
      }
      // None is so far ahead that what it sends to the same root next is taken now.
      if (batch % 3 != 0) continue;
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_P(AnySource, TestAndWaitAnyFindIt) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank != 0) {
      if (rank == 2) receive(comm, 0, 3);
      pause_for(20);
      send(comm, rank, 0, rank);
    } else {
      FromAny one, two;
      one.begin(comm, 1, 1);
      two.begin(comm, 1, 2);
      tutti_request both[] = {two.request, one.request};
      size_t index = 9;
      ASSERT_EQ(tutti_waitany(2, both, &index), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(index, 1u);
      EXPECT_EQ(one.source, 1);
      send(comm, one.source, 2, 3);
      int ended = 0;
      while (ended == 0) ASSERT_EQ(tutti_test(&both[0], &ended), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(two.source, 2);
      EXPECT_EQ(two.got[0], 2);
    }
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_P(AnySource, WhatCannotBeIsRefused) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t value = 0;
    int source = -1;
    tutti_request request = nullptr;
    const auto refused = [&](void* buffer, size_t count, int tag, int* to, const char* why) {
      EXPECT_EQ(tutti_irecv_any(buffer, count, TUTTI_INT32, tag, to, comm, nullptr, &request),
                TUTTI_INVALID);
      EXPECT_EQ(request, nullptr);
      EXPECT_NE(sentence(comm).find(why), std::string::npos) << sentence(comm);
    };
    refused(&value, 0, 0, &source, "needs elements");
    refused(&value, 1, -1, &source, "is negative");
    refused(nullptr, 1, 0, &source, "NULL");
    refused(&value, 1, 0, nullptr, "nowhere to put the sender's rank");
    // The number that stands for any rank inside is not one for programs.
    EXPECT_EQ(tutti_irecv(&value, 1, TUTTI_INT32, -2, 0, comm, nullptr, &request), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("peer -2 is not a rank"), std::string::npos) << sentence(comm);
    EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, -2, 0, comm), TUTTI_INVALID);
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    EXPECT_EQ(tutti_irecv_any(&value, 1, TUTTI_INT32, 0, &source, comm, nullptr, &request),
              TUTTI_INVALID);
    ASSERT_EQ(tutti_group_cancel(comm), TUTTI_OK);
    (void)rank;
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
  on_comm(1, GetParam(), [](int, tutti_comm comm) {
    int32_t value = 0;
    int source = -1;
    tutti_request request = nullptr;
    EXPECT_EQ(tutti_irecv_any(&value, 1, TUTTI_INT32, 0, &source, comm, nullptr, &request),
              TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("no other rank"), std::string::npos) << sentence(comm);
  });
}

TEST_P(AnySource, NobodySendsUntilTheDeadline) {
  std::barrier done(3);
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    if (rank == 1) send(comm, 1, 0, 6);
    if (rank == 0) {
      const auto begin = std::chrono::steady_clock::now();
      FromAny one;
      one.begin(comm, 1, 5, 200);
      EXPECT_EQ(one.wait(), TUTTI_TIMEOUT) << sentence(comm);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      EXPECT_NE(sentence(comm).find("rank 0 waited for any rank, and none sent it"),
                std::string::npos)
          << sentence(comm);
    }
    done.arrive_and_wait();
  });
}

TEST_P(AnySource, AllOthersAreInACollective) {
  std::barrier done(3);
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    int32_t one = 1, sum = 0;
    if (rank != 0) {
      EXPECT_NE(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    } else {
      FromAny any;
      any.begin(comm, 1, 5, 600);
      EXPECT_EQ(any.wait(), TUTTI_TIMEOUT) << sentence(comm);
    }
    const std::string words =
        "rank 0 waited for any rank, and none sent it; every other rank waits in call 2, allreduce "
        "of 1 int32, sum";
    EXPECT_NE(sentence(comm).find(words), std::string::npos) << sentence(comm);
    EXPECT_NE(sentence(comm).find("which rank 0 has not entered"), std::string::npos)
        << sentence(comm);
    done.arrive_and_wait();
  });
}

// Where one of them does something else, or they wait in a call that this rank has left.
TEST_P(AnySource, NotAllOthersAreInACollective) {
  for (const bool one_is_not : {true, false}) {
    std::barrier done(3);
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (one_is_not && rank == 2) {
        EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
      } else if (!one_is_not) {
        // Both wait for it, and then not in it any more.
        if (rank == 0) pause_for(150);
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      }
      if (rank == 0) {
        FromAny any;
        any.begin(comm, 1, 5, 400);
        EXPECT_EQ(any.wait(), TUTTI_TIMEOUT) << sentence(comm);
        EXPECT_EQ(sentence(comm).find("every other rank"), std::string::npos) << sentence(comm);
      }
      done.arrive_and_wait();
    });
  }
}

// The call, the peer and the reason are those of the message that has passed its limit, not of
// one that was asked for before it.
TEST_P(AnySource, ASendBehindItIsNamed) {
  for (const bool blocking : {true, false}) {
    std::barrier done(3);
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      if (rank == 0) {
        FromAny any;
        any.begin(comm, 3, 9, 20'000);
        const std::vector<int32_t> values(4'000'000);  // more than a link takes at once
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.timeout_ms = 400;
        tutti_request request = nullptr;
        tutti_status status = TUTTI_OK;
        if (blocking) {
          status = tutti_send_with(values.data(), values.size(), TUTTI_INT32, 1, 7, comm, &config);
        } else {
          ASSERT_EQ(
              tutti_isend(values.data(), values.size(), TUTTI_INT32, 1, 7, comm, &config, &request),
              TUTTI_OK);
          status = tutti_wait(&request);
        }
        EXPECT_EQ(status, TUTTI_TIMEOUT);
        EXPECT_EQ(
            sentence(comm).rfind("in message of 4000000 int32, tag 7: rank 0 waited for rank 1", 0),
            0u)
            << sentence(comm);
        tutti_error error{};
        tutti_comm_last_error(comm, &error);
        EXPECT_EQ(error.rank, 1);
        EXPECT_EQ(any.wait(), TUTTI_TIMEOUT);
      }
      done.arrive_and_wait();
    });
  }
}

TEST_P(AnySource, AllOthersHaveGone) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank != 0) {
      if (rank == 2) send(comm, 2, 0, 5);
      return;
    }
    pause_for(50);
    FromAny one;
    one.begin(comm, 1, 5);
    ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(one.source, 2);
    one.begin(comm, 1, 5);
    EXPECT_EQ(one.wait(), TUTTI_PEER_FAILED) << sentence(comm);
    EXPECT_NE(sentence(comm).find("all other ranks have freed the communicator"), std::string::npos)
        << sentence(comm);
  });
}

// What they have sent before is there, in either order of the receives.
TEST_P(AnySource, AllOthersHaveGoneAndLeftMessages) {
  for (const bool any_first : {true, false}) {
    on_comm(2, GetParam(), [any_first](int rank, tutti_comm comm) {
      if (rank == 1) {
        send(comm, 6, 0, 6);
        return send(comm, 5, 0, 5);
      }
      FromAny one;
      if (any_first) one.begin(comm, 1, 5);
      // Longer than a receive from any rank waits for those that have gone.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1'500);
      while (any_first && std::chrono::steady_clock::now() < until) {
        int ended = 0;
        ASSERT_EQ(tutti_test(&one.request, &ended), TUTTI_OK) << sentence(comm);
        ASSERT_EQ(ended, 0);
      }
      EXPECT_EQ(receive(comm, 1, 6), 6);
      if (!any_first) one.begin(comm, 1, 5);
      ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(one.got[0], 5);
    });
  }
}

// A named receive whose peer does not send is found as without one from any rank before it.
TEST_P(AnySource, ANamedReceiveBehindItIsStillWatched) {
  for (const bool leaves : {true, false}) {
    std::barrier done(3);
    on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
      if (rank == 1 && !leaves) {
        int32_t one = 1, sum = 0;
        EXPECT_EQ(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_MISMATCH)
            << sentence(comm);
      }
      if (rank == 0) {
        FromAny any;
        any.begin(comm, 1, 9);
        int32_t value = 0;
        EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 1, 5, comm),
                  leaves ? TUTTI_PEER_FAILED : TUTTI_MISMATCH)
            << sentence(comm);
        EXPECT_NE(any.wait(), TUTTI_OK);
      }
      if (rank != 1 || !leaves)
        done.arrive_and_wait();
      else
        done.arrive_and_drop();
    });
  }
}

TEST_P(AnySource, SomeHaveGoneAndOthersSendLate) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 1) return;
    if (rank == 2) {
      pause_for(100);
      return send(comm, 2, 0, 5);
    }
    FromAny one;
    one.begin(comm, 1, 5);
    ASSERT_EQ(one.wait(), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(one.source, 2);
  });
}

TEST_P(AnySource, AnAbortEndsIt) {
  std::barrier done(3);
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    if (rank == 1) {
      pause_for(50);
      ASSERT_EQ(tutti_comm_abort(comm, "no more"), TUTTI_OK);
    } else {
      FromAny one;
      one.begin(comm, 1, 5);
      EXPECT_EQ(one.wait(), TUTTI_ABORTED) << sentence(comm);
      EXPECT_NE(sentence(comm).find("no more"), std::string::npos) << sentence(comm);
    }
    done.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, AnySource,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
