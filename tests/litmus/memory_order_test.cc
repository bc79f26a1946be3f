// Do the flags that ranks share order what they must, on processors that promise no more than C++
// does (aarch64, POWER)? The patterns by which the library shares memory, each in a few lines, run
// under Relacy, which tries interleavings and lets loads return every older value that acquire,
// release and seq_cst permit; plain data that two ranks touch without order is a finding.
//
// A pattern names the lines that it copies; when they are no longer in the source, this test fails
// and wants to be read again. Every order that a pattern needs has a mutant without it, which must
// be found broken: a checker that never says no is worthless.
//
// What Relacy does not try: a store before an earlier load of the same rank (C++ lets relaxed ones
// change places; of plain data that is a race all the same), and it keeps C++17's release
// sequences.
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include <relacy/relacy.hpp>
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free

namespace {

using rl::memory_order;
using rl::mo_acquire;
using rl::mo_relaxed;
using rl::mo_release;
using rl::mo_seq_cst;

// Without this order; `none`: as it is in the library.
enum class Without { none, release, acquire, fence, other_fence, second_slot, state };

constexpr memory_order release_or(bool relaxed) { return relaxed ? mo_relaxed : mo_release; }
constexpr memory_order acquire_or(bool relaxed) { return relaxed ? mo_relaxed : mo_acquire; }

inline void fence_unless(bool missing, memory_order order) {
  if (!missing) rl::atomic_thread_fence(order, $);
}

inline void look_again() { rl::yield(1, $); }

// Board::post() and posted() as Fused's one shot uses them: a payload beside the flag, in two slots
// by turns. That the peer has posted turn t says that it has read turn t - 1.
template <Without kWithout>
struct OneShot : rl::test_suite<OneShot<kWithout>, 2> {
  static constexpr unsigned turns = 3, slots = kWithout == Without::second_slot ? 1 : 2;
  struct Line {
    rl::atomic<unsigned> flag;
    rl::var<unsigned> payload;
  };
  Line lines[2][slots];

  void before() {
    for (Line(&of_rank)[slots] : lines) {
      for (Line& line : of_rank) line.flag($).store(0, mo_relaxed);
    }
  }

  void thread(unsigned rank) {
    for (unsigned turn = 1; turn <= turns; ++turn) {
      Line& own = lines[rank][turn % slots];
      own.payload($) = 10 * turn + rank;
      own.flag($).store(turn, release_or(kWithout == Without::release));
      Line& peers = lines[1 - rank][turn % slots];
      while (peers.flag($).load(acquire_or(kWithout == Without::acquire)) != turn) look_again();
      RL_ASSERT(peers.payload($) == 10 * turn + 1 - rank);
    }
  }
};

// SlotLink::has_room(), try_send(), peek_slot() and consume_slot(): a ring of two slots, and how
// far the receiver is.
template <Without kWithout>
struct Ring : rl::test_suite<Ring<kWithout>, 2> {
  static constexpr unsigned slots = 2, slices = 4;
  struct Line {
    rl::atomic<unsigned> flag;
    rl::var<unsigned> payload;
  };
  Line lines[slots];
  rl::atomic<unsigned> consumed;

  void before() {
    for (Line& line : lines) line.flag($).store(0, mo_relaxed);
    consumed($).store(0, mo_relaxed);
  }

  void thread(unsigned rank) { rank == 0 ? send() : receive(); }

  void send() {
    unsigned credit = 0;
    for (unsigned sent = 0; sent < slices;) {
      if (sent - credit >= slots) {
        credit = consumed($).load(acquire_or(kWithout == Without::acquire));
        if (sent - credit >= slots) {
          look_again();
          continue;
        }
      }
      Line& line = lines[sent % slots];
      line.payload($) = 10 + sent;
      ++sent;
      line.flag($).store(sent, mo_release);
    }
  }

  void receive() {
    for (unsigned received = 0; received < slices;) {
      Line& line = lines[received % slots];
      if (line.flag($).load(mo_acquire) != received + 1) {
        look_again();
        continue;
      }
      RL_ASSERT(line.payload($) == 10 + received);
      ++received;
      consumed($).store(received, release_or(kWithout == Without::release));
    }
  }
};

// SlotLink::arm() and sleep() against Board::post() and wake(). The barrier that membarrier makes
// the publisher's core pass is a fence between its store and its look at the doorbell: had it come
// before the store, the look would see the doorbell; after the look, the sleeper would see the
// flag.
template <Without kWithout>
struct Doorbell : rl::test_suite<Doorbell<kWithout>, 2> {
  rl::atomic<unsigned> flag, doorbell;
  bool saw = false, rang = false;

  void before() {
    flag($).store(0, mo_relaxed);
    doorbell($).store(0, mo_relaxed);
    saw = rang = false;
  }

  void thread(unsigned rank) { rank == 0 ? publish() : go_to_sleep(); }

  void publish() {
    flag($).store(1, mo_release);
    fence_unless(kWithout == Without::fence, mo_seq_cst);
    if (doorbell($).load(mo_relaxed) != 0) rang = doorbell($).exchange(0, mo_seq_cst) != 0;
  }

  void go_to_sleep() {
    doorbell($).store(1, mo_seq_cst);
    fence_unless(kWithout == Without::other_fence, mo_seq_cst);
    saw = flag($).load(mo_acquire) == 1;
  }

  // FUTEX_WAIT sleeps while the doorbell is 1; ring() sets it to 0 and then wakes.
  void after() { RL_ASSERT(saw || rang); }
};

// SlotLink::begin() and read_call(): epochs 1 and 5 come into the same line.
template <Without kWithout>
struct Calls : rl::test_suite<Calls<kWithout>, 2> {
  static constexpr unsigned words = 2, kept = 4;
  rl::atomic<unsigned> epoch;
  rl::atomic<unsigned> signature[words];

  void before() {
    epoch($).store(0, mo_relaxed);
    for (rl::atomic<unsigned>& word : signature) word($).store(0, mo_relaxed);
  }

  void thread(unsigned rank) {
    if (rank == 0) {
      begin(1);
      begin(1 + kept);
    } else {
      read_call(1);
      read_call(1 + kept);
    }
  }

  void begin(unsigned call) {
    epoch($).store(0, mo_relaxed);
    fence_unless(kWithout == Without::fence, mo_release);
    for (unsigned i = 0; i < words; ++i) signature[i]($).store(10 * call + i, mo_relaxed);
    epoch($).store(call, release_or(kWithout == Without::release));
  }

  void read_call(unsigned call) {
    if (epoch($).load(acquire_or(kWithout == Without::acquire)) != call) return;
    unsigned there[words];
    for (unsigned i = 0; i < words; ++i) there[i] = signature[i]($).load(mo_relaxed);
    fence_unless(kWithout == Without::other_fence, mo_acquire);
    if (epoch($).load(mo_relaxed) != call) return;
    for (unsigned i = 0; i < words; ++i) RL_ASSERT(there[i] == 10 * call + i);
  }
};

// SlotLink::post_note() and read_note(): the same with a sequence that is odd meanwhile.
template <Without kWithout>
struct Notes : rl::test_suite<Notes<kWithout>, 2> {
  static constexpr unsigned words = 2;
  rl::atomic<unsigned> sequence;
  rl::atomic<unsigned> note[words];

  void before() {
    sequence($).store(0, mo_relaxed);
    for (rl::atomic<unsigned>& word : note) word($).store(0, mo_relaxed);
  }

  void thread(unsigned rank) {
    if (rank == 0) {
      post_note(10);
      post_note(20);
    } else {
      read_note();
      read_note();
    }
  }

  void post_note(unsigned value) {
    const unsigned before = sequence($).load(mo_relaxed);
    sequence($).store(before + 1, mo_relaxed);
    fence_unless(kWithout == Without::fence, mo_release);
    for (unsigned i = 0; i < words; ++i) note[i]($).store(value, mo_relaxed);
    sequence($).store(before + 2, release_or(kWithout == Without::release));
  }

  void read_note() {
    const unsigned before = sequence($).load(acquire_or(kWithout == Without::acquire));
    if (before % 2 != 0) return;
    unsigned there[words];
    for (unsigned i = 0; i < words; ++i) there[i] = note[i]($).load(mo_relaxed);
    fence_unless(kWithout == Without::other_fence, mo_acquire);
    if (sequence($).load(mo_relaxed) != before) return;
    for (unsigned i = 0; i < words; ++i) RL_ASSERT(there[i] == 5 * before);
  }
};

// Direct::withdraw() against begin(): rank 0 has announced its vector, goes away before the call
// has begun and frees the vector; rank 1 begins, unless it sees that rank 0 has gone.
template <Without kWithout>
struct Withdraw : rl::test_suite<Withdraw<kWithout>, 2> {
  rl::atomic<unsigned> places, begun, finish;
  rl::var<unsigned> vector;

  void before() {
    vector($) = 7;
    places($).store(1, mo_release);
    begun($).store(0, mo_relaxed);
    finish($).store(0, mo_relaxed);
  }

  void thread(unsigned rank) { rank == 0 ? withdraw() : begin(); }

  void withdraw() {
    places($).store(0, mo_release);
    fence_unless(kWithout == Without::fence, mo_seq_cst);
    while (begun($).load(mo_acquire) == 1 &&
           finish($).load(acquire_or(kWithout == Without::acquire)) != 1) {
      look_again();
    }
    vector($) = 0;  // whoever gets the memory next
  }

  void begin() {
    begun($).store(1, mo_release);
    fence_unless(kWithout == Without::other_fence, mo_seq_cst);
    if (places($).load(mo_acquire) != 1) {
      begun($).store(0, mo_release);
      return;
    }
    RL_ASSERT(vector($) == 7);
    finish($).store(1, release_or(kWithout == Without::release));
  }
};

// SlotLink::abort() and find_abort(): two ranks abort, a third one looks.
template <Without kWithout>
struct Abort : rl::test_suite<Abort<kWithout>, 3> {
  rl::atomic<unsigned> state;
  rl::var<unsigned> code, text;

  void before() {
    state($).store(0, mo_relaxed);
    code($) = 0;
    text($) = 0;
  }

  void thread(unsigned rank) { rank < 2 ? abort(rank + 1) : find_abort(); }

  void abort(unsigned reason) {
    unsigned none = 0;
    constexpr unsigned writing = kWithout == Without::state ? 2 : 1;
    if (!state($).compare_exchange_strong(none, writing)) return;
    code($) = reason;
    text($) = 10 * reason;
    state($).store(2, release_or(kWithout == Without::release));
  }

  void find_abort() {
    if (state($).load(acquire_or(kWithout == Without::acquire)) != 2) return;
    RL_ASSERT(text($) == 10 * code($));
  }
};

// Text of a fixed length: what Relacy writes while it simulates must not allocate, because
// allocations belong to the simulated ranks then.
class Report : public std::streambuf {
 public:
  Report() { setp(text_, text_ + sizeof(text_)); }
  std::string text() const { return std::string(pbase(), pptr()); }

 private:
  int overflow(int) override { return traits_type::not_eof(0); }
  char text_[64 << 10];
};

// What Relacy finds; `report` gets the history of the finding.
template <class Suite>
rl::test_result_e look_at(Report& report) {
  std::ostream stream(&report);
  rl::test_params params;
  params.search_type = rl::random_scheduler_type;
  params.iteration_count = 100'000;
  params.output_stream = params.progress_stream = &stream;
  rl::simulate<Suite>(params);
  return params.test_result;
}

template <class Suite>
void expect_right() {
  Report report;
  EXPECT_EQ(look_at<Suite>(report), rl::test_result_success) << report.text();
}

template <class Suite>
void expect_found_broken() {
  Report report;
  const rl::test_result_e result = look_at<Suite>(report);
  EXPECT_TRUE(result == rl::test_result_data_race || result == rl::test_result_user_assert_failed)
      << rl::test_result_str(result);
}

// A source without the differences that clang-format makes.
std::string without_spaces(const std::string& text) {
  std::string rest;
  for (const unsigned char letter : text) {
    if (!std::isspace(letter)) rest += char(letter);
  }
  return rest;
}

// That these lines come one after the other in the function whose first line is `function`.
void expect_in(const std::string& file, const std::string& function,
               const std::vector<std::string>& lines) {
  std::ifstream stream(SOURCE_ROOT "/" + file);
  std::stringstream text;
  text << stream.rdbuf();
  const std::string source = without_spaces(text.str());
  size_t at = source.find(without_spaces(function));
  ASSERT_NE(at, std::string::npos) << file << " has no " << function;
  for (const std::string& line : lines) {
    const size_t found = source.find(without_spaces(line), at);
    ASSERT_NE(found, std::string::npos) << file << ", " << function << "\n  no longer has\n"
                                        << line << "\n  The pattern below copies it: change both.";
    at = found + 1;
  }
}

constexpr char slot_link_h[] = "lib/slots/slot_link.h";
constexpr char slot_link_cc[] = "lib/slots/slot_link.cc";
constexpr char flag_lines_h[] = "lib/shared_memory/flag_lines.h";
constexpr char direct_cc[] = "lib/shared_memory/direct.cc";
constexpr char one_hop_cc[] = "lib/shared_memory/one_hop.cc";
constexpr char vector_access_h[] = "lib/shared_memory/vector_access.h";
constexpr char rendezvous_cc[] = "lib/shared_memory/rendezvous.cc";

TEST(MemoryOrder, APostedFlagCarriesItsPayload) {
  expect_in(flag_lines_h, "void post(uint32_t line", {"set(line, sequence, digest);"});
  expect_in(flag_lines_h, "void set(uint32_t line",
            {"slots::store(at(self_, line).flag, make_flag(sequence, digest), "
             "std::memory_order_release);"});
  expect_in(flag_lines_h, "bool posted(uint32_t rank, uint32_t line", {"flag(rank, line);"});
  expect_in(flag_lines_h, "uint64_t flag(uint32_t rank, uint32_t line",
            {"slots::load(at(rank, line).flag, std::memory_order_acquire);"});
  expect_right<OneShot<Without::none>>();
  expect_found_broken<OneShot<Without::release>>();
  expect_found_broken<OneShot<Without::acquire>>();
  expect_found_broken<OneShot<Without::second_slot>>();
}

TEST(MemoryOrder, ASlotIsFilledAgainOnlyWhenItWasRead) {
  expect_in(slot_link_h, "bool has_room(int peer) {",
            {"load(ring.credit_line->consumed, std::memory_order_acquire);"});
  expect_in(slot_link_h, "size_t try_send(",
            {"if (!has_room(peer)) return 0;",
             "store(line.flag, make_flag(ring.sent, digest_), std::memory_order_release);"});
  expect_in(slot_link_h, "peek_slot(int peer, size_t most, size_t granule) {",
            {"load(line.flag, std::memory_order_acquire);"});
  expect_in(slot_link_h, "void consume_slot(",
            {"store(ring.credit_line->consumed, ring.received, std::memory_order_release);"});
  expect_right<Ring<Without::none>>();
  expect_found_broken<Ring<Without::release>>();
  expect_found_broken<Ring<Without::acquire>>();
}

TEST(MemoryOrder, NobodySleepsPastWhatWasPublished) {
  expect_in(slot_link_h, "void wake(uint32_t local) {",
            {"std::atomic_signal_fence(std::memory_order_seq_cst);",
             "load(doorbell, std::memory_order_relaxed)"});
  expect_in(slot_link_cc, "void SlotLink::ring(", {"exchange(doorbell, 0u) != 0"});
  expect_in(
      slot_link_cc, "void SlotLink::arm() {",
      {"store(own_->doorbell, 1u, std::memory_order_seq_cst);", "MEMBARRIER_CMD_GLOBAL_EXPEDITED"});
  expect_right<Doorbell<Without::none>>();
  expect_found_broken<Doorbell<Without::fence>>();
  expect_found_broken<Doorbell<Without::other_fence>>();
}

TEST(MemoryOrder, ACallIsReadWholeOrNotAtAll) {
  expect_in(slot_link_cc, "void SlotLink::begin(",
            {"store(call.epoch, uint64_t{0}, std::memory_order_relaxed);",
             "fence(std::memory_order_release);",
             "store(call.signature[i], word_of(&mark.signature, i), std::memory_order_relaxed);",
             "store(call.epoch, mark.epoch, std::memory_order_release);"});
  expect_in(
      slot_link_cc, "std::optional<CallMark> SlotLink::read_call(",
      {"load(call.epoch, std::memory_order_acquire) != epoch",
       "load(call.signature[i], std::memory_order_relaxed);", "fence(std::memory_order_acquire);",
       "load(call.epoch, std::memory_order_relaxed) != epoch"});
  expect_right<Calls<Without::none>>();
  expect_found_broken<Calls<Without::release>>();
  expect_found_broken<Calls<Without::acquire>>();
  expect_found_broken<Calls<Without::fence>>();
  expect_found_broken<Calls<Without::other_fence>>();
}

TEST(MemoryOrder, ANoteIsReadWholeOrNotAtAll) {
  expect_in(slot_link_cc, "void SlotLink::post_note(",
            {"store(lines.sequence, sequence + 1, std::memory_order_relaxed);",
             "fence(std::memory_order_release);",
             "store(lines.words[i], words[i], std::memory_order_relaxed);",
             "store(lines.sequence, sequence + 2, std::memory_order_release);"});
  expect_in(
      slot_link_cc, "Note SlotLink::read_note(",
      {"load(lines.sequence, std::memory_order_acquire);",
       "load(lines.words[word], std::memory_order_relaxed);", "fence(std::memory_order_acquire);",
       "load(lines.sequence, std::memory_order_relaxed) != sequence"});
  expect_right<Notes<Without::none>>();
  expect_found_broken<Notes<Without::release>>();
  expect_found_broken<Notes<Without::acquire>>();
  expect_found_broken<Notes<Without::fence>>();
  expect_found_broken<Notes<Without::other_fence>>();
}

TEST(MemoryOrder, NobodyUsesAVectorThatWasWithdrawn) {
  expect_in(direct_cc, "void Direct::withdraw() {",
            {"rendezvous_.withdraw();", "access_.wait_for_others(", "finished(rank)"});
  expect_in(one_hop_cc, "void OneHop::withdraw() {",
            {"flags_.clear(line_of(before_));", "access_.wait_for_others("});
  expect_in(vector_access_h, "bool begin(",
            {"flags_.set(line::begun, sequence, digest);", "fence(std::memory_order_seq_cst);",
             "are_posted()", "end();"});
  expect_in(
      vector_access_h, "void wait_for_others(",
      {"fence(std::memory_order_seq_cst);",
       "flags_.flag(rank, line::begun) == make_flag(sequence, digest) &&", "!is_elsewhere(rank)"});
  expect_in(rendezvous_cc, "void Rendezvous::withdraw()", {"flags_.clear(line::places);"});
  expect_in(flag_lines_h, "void clear(uint32_t line)",
            {"slots::store(at(self_, line).flag, uint64_t{0}, std::memory_order_release);"});
  expect_right<Withdraw<Without::none>>();
  expect_found_broken<Withdraw<Without::release>>();
  expect_found_broken<Withdraw<Without::acquire>>();
  expect_found_broken<Withdraw<Without::fence>>();
  expect_found_broken<Withdraw<Without::other_fence>>();
}

TEST(MemoryOrder, TheReasonOfAnAbortIsReadWhole) {
  expect_in(slot_link_cc, "void SlotLink::abort(",
            {"compare_exchange(record.state, 0u, 1u)",
             "record.code =", "store(record.state, 2u, std::memory_order_release);"});
  expect_in(slot_link_cc, "Status SlotLink::find_abort() const {",
            {"load(record.state, std::memory_order_acquire) != 2"});
  expect_right<Abort<Without::none>>();
  expect_found_broken<Abort<Without::release>>();
  expect_found_broken<Abort<Without::acquire>>();
  expect_found_broken<Abort<Without::state>>();
}

}  // namespace
