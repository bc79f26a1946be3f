// What the doctor makes of records whose processes nobody can start here: of several hosts, whose
// clocks differ, of several jobs, and where records are missing.
#include "tools/doctor/diagnose.h"

#include <gtest/gtest.h>

namespace tutti::doctor {
namespace {

using record::ReadCall;
using record::ReadComm;
using record::State;

constexpr int64_t second = 1'000'000'000;
const char* const addresses = "10.0.0.1:4711 to 10.0.0.2:4712";

ReadCall call(uint64_t number, State state, int64_t entered_ns) {
  ReadCall made;
  made.number = number;
  made.sequence = uint32_t(number);
  made.signature.count = 8;
  made.signature.algorithm = 0xffff;
  made.signature.set_types(TUTTI_FLOAT32, TUTTI_SUM);
  made.state = state;
  made.entered_ns = entered_ns;
  return made;
}

Subject subject(int rank, int nranks, const char* host, uint64_t id = 5) {
  Subject made;
  made.record.process = 100 + rank;
  made.record.host = host;
  ReadComm comm;
  comm.id = id;
  comm.rank = rank;
  comm.nranks = nranks;
  comm.transport = "tcp";
  comm.made_ns = second;
  made.record.comms.push_back(comm);
  return made;
}
ReadComm& comm_of(Subject& one) { return one.record.comms.front(); }

void waits(Subject& one, uint64_t number, int peer, int64_t from_ns, int64_t to_ns) {
  comm_of(one).calls.push_back(call(number, State::entered, from_ns));
  comm_of(one).wait = {uint32_t(number), peer, from_ns, to_ns, "tcp", addresses};
}

TEST(Diagnose, FollowsALostPeerToItsOwnFailureWhateverTheClocksSay) {
  Subject a = subject(0, 2, "north"), b = subject(1, 2, "south");
  comm_of(a).calls.push_back(call(3, State::failed, 10 * second));
  comm_of(a).failure = {TUTTI_TIMEOUT, 1, 3, 40 * second, "rank 0 waited for rank 1"};
  comm_of(b).calls.push_back(call(2, State::left, 4 * second));
  comm_of(b).calls.push_back(call(3, State::failed, 5 * second));
  comm_of(b).failure = {TUTTI_PEER_FAILED, 0, 3, 36 * second, "rank 0 died"};
  a.life = b.life = Life::ended;
  const Diagnosis found = diagnose({a, b}, 0);
  EXPECT_EQ(found.who.rank, 1) << found.sentence;
  EXPECT_EQ(found.who.host, "south");
  EXPECT_EQ(found.waiting.host, "north");
  EXPECT_EQ(found.why, "rank 0 waited for rank 1");
}

// Each end of a cut has lost the other, and both processes ended because of it.
TEST(Diagnose, DoesNotSayOfACutOffRankThatItHasDied) {
  Subject a = subject(0, 3, "north"), b = subject(1, 3, "south"), c = subject(2, 3, "west");
  for (Subject* const one : {&a, &b, &c}) {
    comm_of(*one).calls.push_back(call(3, State::failed, 5 * second));
    one->life = Life::ended;
    one->record.ended_in_order = true;
  }
  const std::string lost = "the host of rank 1 does not answer",
                    off = "the host of rank 1 is cut off";
  comm_of(a).failure = {TUTTI_PEER_FAILED, 1, 3, 7 * second, lost};
  comm_of(c).failure = {TUTTI_PEER_FAILED, 1, 3, 8 * second, lost};
  comm_of(b).failure = {TUTTI_PEER_FAILED, 0, 3, 9 * second, "the host of rank 0 does not answer"};
  const Diagnosis mutual = diagnose({a, b, c}, 0);
  EXPECT_EQ(mutual.finding, Finding::failed) << mutual.sentence;
  EXPECT_EQ(mutual.who.rank, 1) << mutual.sentence;
  EXPECT_NE(mutual.sentence.find("lost its connection to rank 1"), std::string::npos)
      << mutual.sentence;
  EXPECT_NE(mutual.sentence.find(lost), std::string::npos) << mutual.sentence;
  comm_of(b).failure = {TUTTI_PEER_FAILED, 1, 3, 9 * second, off};
  const Diagnosis alone = diagnose({a, b, c}, 0);
  EXPECT_EQ(alone.finding, Finding::failed) << alone.sentence;
  EXPECT_EQ(alone.who.rank, 1) << alone.sentence;
  EXPECT_NE(alone.sentence.find(off), std::string::npos) << alone.sentence;
}

TEST(Diagnose, FollowsWaitsToTheLastOne) {
  std::vector<Subject> all;
  for (int rank = 0; rank < 4; ++rank) all.push_back(subject(rank, 4, "here"));
  waits(all[0], 7, 1, 10 * second, 30 * second);
  waits(all[1], 7, 2, 10 * second, 30 * second);
  waits(all[2], 7, 3, 10 * second, 30 * second);
  comm_of(all[3]).calls.push_back(call(6, State::left, 9 * second));
  const Diagnosis found = diagnose(all, 0);
  EXPECT_EQ(found.finding, Finding::late);
  EXPECT_EQ(found.who.rank, 3) << found.sentence;
  EXPECT_EQ(found.call, 7u);
  EXPECT_NE(found.sentence.find("its latest is call 6"), std::string::npos) << found.sentence;
}

TEST(Diagnose, NamesWhoIsInTheCallAndSendsNothing) {
  Subject a = subject(0, 2, "here"), b = subject(1, 2, "here");
  waits(a, 7, 1, 10 * second, 30 * second);
  comm_of(b).calls.push_back(call(7, State::entered, 10 * second));
  const Diagnosis found = diagnose({a, b}, 0);
  EXPECT_EQ(found.finding, Finding::stuck);
  EXPECT_EQ(found.who.rank, 1) << found.sentence;
}

TEST(Diagnose, SaysThatARecordIsMissing) {
  Subject a = subject(0, 2, "here");
  waits(a, 7, 1, 10 * second, 30 * second);
  const Diagnosis found = diagnose({a}, 0);
  EXPECT_EQ(found.who.rank, 1);
  EXPECT_NE(found.sentence.find("has left no record here"), std::string::npos) << found.sentence;
}

TEST(Diagnose, AShortWaitIsNothing) {
  Subject a = subject(0, 2, "here"), b = subject(1, 2, "here");
  a.life = b.life = Life::running;
  comm_of(a).calls.push_back(call(7, State::entered, 10 * second));
  EXPECT_EQ(diagnose({a, b}, 10 * second + second / 2).finding, Finding::healthy);
  EXPECT_EQ(diagnose({a, b}, 12 * second).finding, Finding::late);
}

TEST(Diagnose, TheLatestJobCounts) {
  Subject old = subject(0, 2, "here", 4), a = subject(0, 2, "here"), b = subject(1, 2, "here");
  comm_of(old).failure = {TUTTI_TIMEOUT, 1, 3, 2 * second, "long ago"};
  comm_of(a).calls.push_back(call(1, State::left, 10 * second));
  const Diagnosis found = diagnose({old, a, b}, 0);
  EXPECT_EQ(found.finding, Finding::healthy) << found.sentence;
  EXPECT_EQ(found.other_jobs, 1u);
  EXPECT_EQ(found.processes, 2u);
}

TEST(Diagnose, TheOneWhoseCallFewestMakeIsNamed) {
  std::vector<Subject> all;
  for (int rank = 0; rank < 4; ++rank) {
    all.push_back(subject(rank, 4, "here"));
    waits(all.back(), 2, (rank + 1) % 4, 10 * second, 20 * second);
    if (rank == 2) comm_of(all.back()).calls.back().signature.count = 9;
  }
  const Diagnosis found = diagnose(all, 0);
  EXPECT_EQ(found.finding, Finding::mismatch);
  EXPECT_EQ(found.who.rank, 2) << found.sentence;
}

TEST(Diagnose, WhereAllWereKilledTheLaunchersWordCounts) {
  Subject a = subject(0, 2, "here"), b = subject(1, 2, "here");
  a.life = b.life = Life::ended;
  comm_of(b).calls.push_back(call(6, State::left, 9 * second));
  EXPECT_EQ(diagnose({a, b}, 0).finding, Finding::died);
  b.ending = "was ended by signal 11 (Segmentation fault)";
  const Diagnosis found = diagnose({a, b}, 0);
  EXPECT_EQ(found.who.rank, 1);
  EXPECT_EQ(
      found.sentence,
      "rank 1 (process 101 on here) was ended by signal 11 (Segmentation fault) after call 6, "
      "allreduce of 8 float32, sum");
}

}  // namespace
}  // namespace tutti::doctor
