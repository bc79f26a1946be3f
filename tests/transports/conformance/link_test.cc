// What every transport must do, by the contract in transports/transport.h. Ranks are threads;
// deaths of processes are in tests/fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "lib/base/mapping.h"
#include "lib/control/host.h"
#include "lib/slots/slot_link.h"
#include "tests/support/links.h"
#include "tests/support/slot_parts.h"
#include "tests/support/with_ucx.h"
#include "transports/registry.h"

namespace tutti {
namespace {

using testing::leave_together;
using testing::mark_of;
using testing::on_linked_threads;
using testing::on_threads;
using testing::recv_all;
using testing::send_all;
using testing::ThreadExchange;
using testing::ThreadExchangeGroup;

// "shm_checked": with TUTTI_INTEGRITY=checksum.
class LinkConformance : public ::testing::TestWithParam<const char*> {
 protected:
  static Status open(LinkSetup setup, std::unique_ptr<Link>* link) {
    const std::string param = GetParam();
    const std::string name = param.substr(0, param.find('_'));
    if (name != param) setup.integrity = Integrity::checksum;
    return open_transport(name, setup, link);
  }

  // Runs body(rank, link) on every rank of a fully connected communicator.
  void run(int nranks, const std::function<void(int, Link&)>& body) {
    on_linked_threads(nranks, open, [&](int rank, Link& link, Exchange& exchange) {
      ASSERT_EQ(std::string(GetParam()).rfind(link.name(), 0), 0u);
      body(rank, link);
      leave_together(exchange);
    });
  }

  static std::vector<uint8_t> pattern(size_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> data(bytes);
    for (uint8_t& byte : data) byte = uint8_t(random());
    return data;
  }
};

TEST_P(LinkConformance, BytesArriveInOrderWhateverTheirSizes) {
  run(2, [](int rank, Link& link) {
    const size_t sizes[] = {1, 3, 48, 49, 64, 4095, 16384, 16385, 300'000, 2'000'003, 8};
    uint64_t epoch = 0;
    for (const size_t bytes : sizes) {
      link.begin(mark_of(++epoch, bytes));
      const std::vector<uint8_t> expected = pattern(bytes, unsigned(bytes));
      if (rank == 0) {
        ASSERT_TRUE(send_all(link, 1, expected.data(), bytes).ok());
      } else {
        std::vector<uint8_t> got(bytes);
        ASSERT_TRUE(recv_all(link, 0, got.data(), bytes).ok());
        ASSERT_EQ(got, expected) << bytes;
      }
    }
  });
}

TEST_P(LinkConformance, BothDirectionsAndAllPairsAtOnce) {
  run(4, [](int rank, Link& link) {
    constexpr size_t bytes = 500'000;
    link.begin(mark_of(1));
    std::vector<size_t> sent(4), got(4);
    std::vector<std::vector<uint8_t>> in(4, std::vector<uint8_t>(bytes));
    const std::vector<uint8_t> out = pattern(bytes, unsigned(rank));
    const auto advance = [&] {
      size_t moved = 0;
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == rank) continue;
        const size_t p = size_t(peer);
        const auto* from = reinterpret_cast<const std::byte*>(out.data()) + sent[p];
        auto* to = reinterpret_cast<std::byte*>(in[p].data()) + got[p];
        size_t n = sent[p] < bytes ? link.try_send(peer, from, bytes - sent[p]) : 0;
        sent[p] += n;
        moved += n;
        n = got[p] < bytes ? link.try_recv(peer, to, bytes - got[p]) : 0;
        got[p] += n;
        moved += n;
      }
      return moved != 0;
    };
    const auto done = [&] {
      for (size_t p = 0; p < 4; ++p) {
        if (p != size_t(rank) && (sent[p] < bytes || got[p] < bytes)) return false;
      }
      return true;
    };
    const Status ended = complete(link, Patience{200, 50}, 10'000'000'000u, advance, done);
    ASSERT_TRUE(ended.ok()) << ended.text();
    for (int peer = 0; peer < 4; ++peer) {
      if (peer != rank) {
        ASSERT_EQ(in[size_t(peer)], pattern(bytes, unsigned(peer)));
      }
    }
  });
}

TEST_P(LinkConformance, PeekGivesWholeGranulesAndKeepsWhatIsNotConsumed) {
  run(2, [](int rank, Link& link) {
    constexpr size_t elements = 100'001;
    link.begin(mark_of(1));
    std::vector<uint64_t> data(elements);
    for (size_t i = 0; i < elements; ++i) data[i] = i * 0x9e3779b97f4a7c15u;
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, data.data(), elements * 8).ok());
      return;
    }
    size_t seen = 0;
    std::mt19937 random(1);
    const Status ended = complete(
        link, Patience{200, 50}, 10'000'000'000u,
        [&] {
          const auto bytes = link.try_peek(0, (elements - seen) * 8, 8);
          EXPECT_EQ(bytes.size() % 8, 0u);
          if (bytes.empty()) return false;
          const size_t use = 1 + random() % (bytes.size() / 8);
          EXPECT_EQ(std::memcmp(bytes.data(), data.data() + seen, use * 8), 0);
          link.consume(0, use * 8);
          seen += use;
          return true;
        },
        [&] { return seen == elements; });
    ASSERT_TRUE(ended.ok()) << ended.text();
  });
}

// Elements of no power of two do not end where slots, frames or pieces of a message do.
TEST_P(LinkConformance, PeekPutsTogetherGranulesThatArriveInParts) {
  for (const size_t granule : {24, 1000, 4096}) {
    run(2, [&](int rank, Link& link) {
      const size_t elements = 400'000 / granule, bytes = elements * granule;
      link.begin(mark_of(1));
      const std::vector<uint8_t> data = pattern(bytes, unsigned(granule));
      if (rank == 0) {
        std::mt19937 random(2);
        for (size_t sent = 0; sent < bytes;) {
          const size_t piece = std::min<size_t>(bytes - sent, 1 + random() % 40'000);
          ASSERT_TRUE(send_all(link, 1, data.data() + sent, piece).ok());
          sent += piece;
        }
        return;
      }
      size_t seen = 0;
      const Status ended = complete(
          link, Patience{200, 50}, 10'000'000'000u,
          [&] {
            const auto found = link.try_peek(0, bytes - seen, granule);
            EXPECT_EQ(found.size() % granule, 0u);
            if (found.empty()) return false;
            EXPECT_EQ(std::memcmp(found.data(), data.data() + seen, found.size()), 0);
            link.consume(0, found.size());
            seen += found.size();
            return true;
          },
          [&] { return seen == bytes; });
      ASSERT_TRUE(ended.ok()) << ended.text() << " at " << seen << " of " << bytes;
    });
  }
}

TEST_P(LinkConformance, WhatComesNextIsToldWithoutTakingIt) {
  const auto message = [](uint64_t number, uint64_t count) {
    CallMark mark = mark_of(0, count);
    mark.signature.collective = Collective::point_to_point;
    mark.digest = call_digest(number, mark.signature);
    return mark;
  };
  for (const size_t bytes : {4, 300'000}) {
    run(3, [&](int rank, Link& link) {
      const CallMark first = message(1, bytes), second = message(2, bytes);
      if (rank == 1) {
        for (const CallMark& mark : {first, second}) {
          link.begin(mark);
          const std::vector<uint8_t> data = pattern(bytes, mark.digest);
          ASSERT_TRUE(send_all(link, 0, data.data(), bytes).ok());
        }
        return;
      }
      const uint32_t word = 3;
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        link.begin(mark_of(1));
        ASSERT_TRUE(send_all(link, 0, &word, 4).ok());
        return;
      }
      CallMark none = first;
      none.digest = 0;
      link.begin(none);
      const auto see = [&](int peer, const CallMark& mark, Next expected) {
        Next found = Next::nothing;
        const Status ended = complete(
            link, Patience{200, 50}, 10'000'000'000u, [] { return false; },
            [&] { return (found = link.next(peer, mark)) != Next::nothing; });
        ASSERT_TRUE(ended.ok()) << ended.text();
        EXPECT_EQ(found, expected);
      };
      EXPECT_EQ(link.next(2, first), Next::nothing);
      for (int times = 0; times < 3; ++times) {
        see(1, first, Next::this_one);
        see(1, second, Next::another);
        see(2, first, Next::another);
        // Numbers and signatures may differ in one digest only.
        CallMark like = message(7, bytes + 1);
        like.digest = first.digest;
        see(1, like, Next::another);
        like = first;
        like.digest = second.digest;
        see(1, like, Next::another);
        const Status fine = link.inspect(now_ns());
        EXPECT_TRUE(fine.ok()) << fine.text();
      }
      for (const CallMark& mark : {first, second}) {
        see(1, mark, Next::this_one);
        link.begin(mark);
        std::vector<uint8_t> got(bytes);
        ASSERT_TRUE(recv_all(link, 1, got.data(), bytes).ok());
        EXPECT_EQ(got, pattern(bytes, mark.digest));
      }
      EXPECT_EQ(link.next(1, second), Next::nothing);
      link.begin(mark_of(1));
      uint32_t got = 0;
      ASSERT_TRUE(recv_all(link, 2, &got, 4).ok());
      EXPECT_EQ(got, word);
    });
  }
}

TEST_P(LinkConformance, AStreamThatNobodyEmptiesFillsUp) {
  run(2, [](int rank, Link& link) {
    link.begin(mark_of(1));
    std::vector<std::byte> data(1 << 20);
    if (rank == 0) {
      size_t total = 0;
      for (int refused = 0; refused < 100 && total < (64u << 20);) {
        const size_t n = link.try_send(1, data.data(), data.size());
        total += n;
        refused = n == 0 ? refused + 1 : 0;
      }
      EXPECT_GT(total, 0u);
      EXPECT_LT(total, 64u << 20);
    }
  });
}

TEST_P(LinkConformance, ARankThatFallsAsleepIsWoken) {
  run(2, [](int rank, Link& link) {
    for (uint64_t epoch = 1; epoch <= 50; ++epoch) {
      link.begin(mark_of(epoch));
      uint32_t word = 0;
      // No spinning, no yielding: every wait sleeps.
      const auto wait = [&](auto&& advance, auto&& done) {
        ASSERT_TRUE(complete(link, Patience{1, 0}, 5'000'000'000u, advance, done).ok());
      };
      size_t moved = 0;
      const auto done = [&] { return moved == sizeof(word); };
      if ((epoch + uint64_t(rank)) % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        word = uint32_t(epoch);
        wait(
            [&] {
              return moved += link.try_send(1 - rank, reinterpret_cast<std::byte*>(&word), 4);
            },
            done);
      } else {
        const uint64_t start = now_ns();
        wait(
            [&] {
              return moved += link.try_recv(1 - rank, reinterpret_cast<std::byte*>(&word), 4);
            },
            done);
        EXPECT_EQ(word, epoch);
        EXPECT_LT(now_ns() - start, 2'000'000'000u);
      }
    }
  });
}

TEST_P(LinkConformance, ASliceOfAnotherCallIsAMismatchThatNamesBoth) {
  run(2, [](int rank, Link& link) {
    link.begin(mark_of(1, rank == 0 ? 100 : 200));
    uint32_t word = 5;
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, &word, 4).ok());
      return;
    }
    const Status ended = recv_all(link, 0, &word, 4);
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH) << ended.text();
    EXPECT_EQ(ended.rank(), 0);
    EXPECT_NE(ended.text().find("100"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("200"), std::string::npos) << ended.text();
  });
}

TEST_P(LinkConformance, TwoThatWaitForEachOtherInDifferentCallsFindOut) {
  run(2, [](int rank, Link& link) {
    link.begin(mark_of(1, rank == 0 ? 100 : 200));
    uint32_t word = 0;
    const Status ended = recv_all(link, 1 - rank, &word, 4);
    // Either by its own look or by the other's abort: the sentence is about both.
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH) << ended.text();
    EXPECT_NE(ended.text().find("100"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("200"), std::string::npos) << ended.text();
    link.abort(ended);
  });
}

TEST_P(LinkConformance, AbortReachesAPeerThatSleepsWithItsReason) {
  run(3, [](int rank, Link& link) {
    link.begin(mark_of(1));
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      link.abort({TUTTI_ABORTED, "enough of this", 0, 1});
      EXPECT_EQ(link.inspect(now_ns()).code(), TUTTI_ABORTED);
      return;
    }
    uint32_t word = 0;
    const uint64_t start = now_ns();
    const Status ended = recv_all(link, 3 - rank, &word, 4);
    EXPECT_EQ(ended.code(), TUTTI_ABORTED) << ended.text();
    EXPECT_NE(ended.text().find("enough of this"), std::string::npos) << ended.text();
    EXPECT_LT(now_ns() - start, 2'000'000'000u);
  });
}

TEST_P(LinkConformance, AbortMayComeFromAnotherThread) {
  run(2, [](int rank, Link& link) {
    link.begin(mark_of(1));
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&link] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        link.abort({TUTTI_ABORTED, "from a thread", 0, 1});
      });
    }
    uint32_t word = 0;
    EXPECT_EQ(recv_all(link, 1 - rank, &word, 4).code(), TUTTI_ABORTED);
    if (aborter.joinable()) aborter.join();
  });
}

// Its process may not end for long: a handler of exit() may never return.
TEST_P(LinkConformance, WhoLeavesInACallIsNamedWhileItsProcessLivesOn) {
  std::atomic<int> told{0};
  run(3, [&](int rank, Link& link) {
    link.begin(mark_of(1));
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      link.leave(true);
      while (told < 2) usleep(1000);
      return;
    }
    uint32_t word = 0;
    const uint64_t start = now_ns();
    const Status ended = recv_all(link, 3 - rank, &word, 4);
    ++told;
    EXPECT_EQ(ended.code(), TUTTI_PEER_FAILED) << ended.text();
    EXPECT_EQ(ended.rank(), 0) << ended.text();
    EXPECT_LT(now_ns() - start, 2'000'000'000u);
  });
}

TEST_P(LinkConformance, APeerThatHasLeftIsReportedToWhoWaitsForIt) {
  auto group = std::make_shared<ThreadExchangeGroup>(2);
  on_threads(2, [&](int rank) {
    ThreadExchange exchange(group, rank);
    const std::vector<uint8_t> peers = {uint8_t(rank == 1), uint8_t(rank == 0)};
    std::unique_ptr<Link> link;
    LinkSetup setup{&exchange, 4711, peers, "", deadline_after_ms(20'000)};
    const Status opened = open(setup, &link);
    ASSERT_TRUE(opened.ok()) << opened.text();
    link->begin(mark_of(1));
    uint32_t word = 9;
    if (rank == 0) {
      ASSERT_TRUE(send_all(*link, 1, &word, 4).ok());
      return;  // frees the link
    }
    // What it sent before is still there; what it did not send never comes.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(recv_all(*link, 0, &word, 4).ok());
    EXPECT_EQ(word, 9u);
    link->begin(mark_of(2));
    const Status ended = recv_all(*link, 0, &word, 4);
    EXPECT_EQ(ended.code(), TUTTI_PEER_FAILED) << ended.text();
    EXPECT_EQ(ended.rank(), 0);
  });
}

TEST_P(LinkConformance, ANoteIsSeenByAllPeersUntilTheNext) {
  run(3, [](int rank, Link& link) {
    link.begin(mark_of(1));
    Note note;
    note.entered = 3;
    note.epoch = 8;
    note.signature.count = 17;
    note.count = 2;
    note.all_labels = {100, 200};
    // Looks until it is so.
    const auto see = [&](const Note& expected) {
      const uint64_t deadline_ns = deadline_after_ms(10'000);
      while (!(link.read_note(0) == expected) && now_ns() < deadline_ns) {
        ASSERT_TRUE(link.inspect(now_ns()).ok());
        std::this_thread::yield();
      }
      EXPECT_EQ(link.read_note(0), expected);
    };
    // All have posted and seen what there was before any goes on.
    const auto step = [&] {
      uint32_t word = 0;
      for (const int peer : {1, 2}) {
        if (rank == 0) {
          ASSERT_TRUE(recv_all(link, peer, &word, 4).ok());
        }
        if (rank == peer) {
          ASSERT_TRUE(send_all(link, 0, &word, 4).ok());
        }
      }
      for (const int peer : {1, 2}) {
        if (rank == 0) {
          ASSERT_TRUE(send_all(link, peer, &word, 4).ok());
        }
        if (rank == peer) {
          ASSERT_TRUE(recv_all(link, 0, &word, 4).ok());
        }
      }
    };
    if (rank == 0) {
      EXPECT_TRUE(link.read_note(1).empty());
    }
    if (rank == 0) std::thread([&] { link.post_note(note); }).join();
    if (rank != 0) see(note);
    step();
    note.all_labels[1] = 300;
    // It may be posted again and again, and some of it lost.
    for (int i = 0; rank == 0 && i < 1000; ++i) {
      note.all_labels[0] = uint64_t(i);
      link.post_note(note);
    }
    if (rank != 0) {
      const uint64_t deadline_ns = deadline_after_ms(10'000);
      // While it is written it may seem empty, but never to be made of two.
      Note seen;
      while (seen.all_labels[1] != 300 && now_ns() < deadline_ns) {
        ASSERT_TRUE(link.inspect(now_ns()).ok());
        seen = link.read_note(0);
        if (!seen.empty()) {
          ASSERT_EQ(seen.entered, 3u);
        }
      }
      EXPECT_EQ(seen.all_labels[1], 300u);
    }
    step();
    if (rank == 0) {
      const uint64_t until_ns = deadline_after_ms(300);
      while (now_ns() < until_ns) {
        link.post_note({});
        ASSERT_TRUE(link.inspect(now_ns()).ok());
      }
    } else {
      see({});
    }
    step();
  });
}

// All texts from `peer` until one that is "end".
std::vector<std::string> mail_of(Link& link, int peer) {
  std::vector<std::string> all;
  const uint64_t deadline_ns = deadline_after_ms(10'000);
  while (now_ns() < deadline_ns && (all.empty() || all.back() != "end")) {
    std::string text;
    if (link.take_mail(peer, &text)) {
      all.push_back(text);
    } else {
      link.sleep_for_mail(deadline_after_ms(50));
    }
  }
  return all;
}

TEST_P(LinkConformance, MailArrivesInOrderWhateverItsLengthAlsoAfterAnAbort) {
  std::vector<std::string> texts = {"", "a", std::string(240, 'b'), std::string(241, 'c')};
  for (size_t i = 0; i < 50; ++i) texts.emplace_back(i * 20, char('a' + i % 26));
  texts.emplace_back(Link::most_mail_bytes, 'z');
  texts.emplace_back("end");
  run(3, [&](int rank, Link& link) {
    if (rank == 1) link.abort({TUTTI_ABORTED, "a test", 1});
    link.begin(mark_of(1));
    while (link.inspect(now_ns()).ok()) usleep(1000);
    for (const int peer : {0, 1, 2}) {
      if (peer == rank) continue;
      for (const std::string& text : texts) link.post_mail(peer, text);
    }
    for (const int peer : {0, 1, 2}) {
      if (peer == rank) continue;
      EXPECT_EQ(mail_of(link, peer), texts);
    }
    for (const int peer : {0, 1, 2}) {
      if (peer == rank) continue;
      EXPECT_EQ(link.presence(peer, now_ns()), Presence::here);
      // What had no room goes when the peer's mail is looked for.
      const uint64_t deadline_ns = deadline_after_ms(10'000);
      for (std::string none; !link.mail_is_out(peer) && now_ns() < deadline_ns;)
        EXPECT_FALSE(link.take_mail(peer, &none));
      EXPECT_TRUE(link.mail_is_out(peer));
    }
  });
}

TEST_P(LinkConformance, WhoLeavesIsSeenToHaveLeftOrToHaveGoneOnAndItsMailIsThere) {
  for (const bool goes_on : {false, true}) {
    auto group = std::make_shared<ThreadExchangeGroup>(2);
    on_threads(2, [&](int rank) {
      ThreadExchange exchange(group, rank);
      const std::vector<uint8_t> peers{uint8_t(rank), uint8_t(1 - rank)};
      std::unique_ptr<Link> link;
      ASSERT_TRUE(
          open({&exchange, uint64_t(17 + goes_on), peers, "", deadline_after_ms(20'000)}, &link)
              .ok());
      if (rank == 1) {
        link->post_mail(0, "end");
        if (goes_on) link->move_on();
        link.reset();
      }
      leave_together(exchange);
      if (rank == 1) return;
      const uint64_t deadline_ns = deadline_after_ms(10'000);
      Presence seen = Presence::here;
      while (seen == Presence::here && now_ns() < deadline_ns) seen = link->presence(1, now_ns());
      EXPECT_EQ(seen, goes_on ? Presence::lost : Presence::left);
      EXPECT_EQ(mail_of(*link, 1), std::vector<std::string>{"end"});
    });
  }
}

TEST_P(LinkConformance, LastSeenTellsThePeersCall) {
  run(2, [](int rank, Link& link) {
    link.begin(mark_of(7, 42));
    uint32_t word = 1;
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, &word, 4).ok());
    } else {
      ASSERT_TRUE(recv_all(link, 0, &word, 4).ok());
      const std::optional<CallMark> seen = link.last_seen(0);
      ASSERT_TRUE(seen.has_value());
      EXPECT_EQ(seen->epoch, 7u);
      EXPECT_EQ(seen->signature.count, 42u);
    }
  });
}

// It never stands still for as long as a wait would look at the clock for that.
TEST_P(LinkConformance, AStreamThatTricklesEndsByTheDeadline) {
  constexpr uint64_t limit_ns = 300'000'000;
  std::atomic<bool> ended_twice = false;
  run(2, [&ended_twice](int rank, Link& link) {
    link.begin(mark_of(1));
    const auto begin_ns = now_ns();
    const auto past_limit = [&] { return now_ns() > begin_ns + 30 * limit_ns; };
    if (rank == 0) {
      const std::byte one{1};
      while (!ended_twice) {
        link.try_send(1, &one, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      return;
    }
    for (const Patience& patience : {Patience{}, Patience{1, 2000}}) {
      std::byte got[64];
      const auto entered_ns = now_ns();
      const Status ended = complete(
          link, patience, limit_ns, [&] { return link.try_recv(0, got, sizeof(got)) != 0; },
          past_limit);
      EXPECT_EQ(ended.code(), TUTTI_TIMEOUT) << ended.text();
      EXPECT_LT(now_ns() - entered_ns, 10 * limit_ns);
    }
    ended_twice = true;
  });
}

TEST_P(LinkConformance, WhatNeverStopsMovingEndsByTheDeadline) {
  run(2, [](int, Link& link) {
    link.begin(mark_of(1));
    for (const int64_t each_us : {0, 1, 100, 10'000}) {
      uint64_t moves = 0;
      const auto begin_ns = now_ns();
      const auto move = [&] {
        ++moves;
        const uint64_t until_ns = now_ns() + uint64_t(each_us) * 1000;
        while (now_ns() < until_ns) continue;
        return true;
      };
      const Status ended = complete(link, Patience{}, 50'000'000, move,
                                    [&] { return now_ns() > begin_ns + 20'000'000'000u; });
      EXPECT_EQ(ended.code(), TUTTI_TIMEOUT) << each_us;
      EXPECT_NE(ended.text().find("still moving"), std::string::npos) << ended.text();
      EXPECT_LT(now_ns() - begin_ns, 2'000'000'000u) << each_us << " us, " << moves << " moves";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, LinkConformance,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp",
                                                                       "shm_checked"})),
                         [](const auto& info) { return std::string(info.param); });

// Two ranks of one thread, and the segment that a rank which lies could write to.
class SlotThatLies : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto geometry = slots::Geometry::for_ranks(2, default_tuning);
    Mapping mapping;
    ASSERT_TRUE(map_private(geometry.total_bytes(), &mapping).ok());
    segment_ = slots::Segment(mapping.base, geometry);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      links_[rank] =
          std::make_unique<slots::SlotLink>(testing::slot_parts(mapping, geometry, 2, rank));
      links_[rank]->begin(mark_of(1));
    }
    const std::byte data[100] = {};
    ASSERT_EQ(links_[0]->try_send(1, data, sizeof(data)), sizeof(data));
    length_ = &segment_.slot_lines(0, 1)->bytes;
  }

  slots::Segment segment_;
  std::unique_ptr<slots::SlotLink> links_[2];
  uint32_t* length_ = nullptr;  // of the slot that was sent last
  uint32_t slot_ = 0;
};

TEST_F(SlotThatLies, ALengthThatChangesAfterItWasReadIsNotReadAgain) {
  for (const uint32_t length : {0u, 7u, 101u, 16u << 10, ~0u}) {
    ASSERT_EQ(links_[1]->try_peek(0, 1000, 1).size(), 100u);
    links_[1]->consume(0, 40);
    *length_ = length;
    ASSERT_EQ(links_[1]->try_peek(0, 1000, 1).size(), 60u) << length;
    links_[1]->consume(0, 60);
    ASSERT_TRUE(links_[1]->try_peek(0, 1000, 1).empty()) << length;
    const std::byte data[100] = {};
    ASSERT_EQ(links_[0]->try_send(1, data, sizeof(data)), sizeof(data));
    length_ = &segment_.slot_lines(0, 1)[++slot_].bytes;
  }
}

TEST_F(SlotThatLies, ALengthBeyondTheSlotIsCorruptAndNamesTheRank) {
  *length_ = segment_.geometry().slice_bytes + 1;
  ASSERT_TRUE(links_[1]->try_peek(0, 1 << 20, 1).empty());
  const Status found = links_[1]->inspect(now_ns());
  EXPECT_EQ(found.code(), TUTTI_CORRUPT);
  EXPECT_EQ(found.rank(), 0);
  EXPECT_NE(found.text().find("rank 0"), std::string::npos) << found.text();
}

}  // namespace
}  // namespace tutti
