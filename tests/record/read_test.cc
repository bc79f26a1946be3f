// What the recorder writes is what is read, of the last 256 calls; damaged files are refused with a
// sentence or give less, never anything wrong.
#include "lib/record/read.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "lib/record/own_folder.h"
#include "lib/record/recorder.h"

namespace tutti::record {
namespace {

std::vector<std::byte> contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

CallSignature signature(uint64_t count) {
  CallSignature made;
  made.count = count;
  made.set_types(TUTTI_FLOAT32, TUTTI_SUM);
  return made;
}

// A process has one file: all tests of this program write to it.
class FlightRecord : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string made = ::testing::TempDir() + "tutti-records-XXXXXX";
    folder() = mkdtemp(made.data());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::string& folder() {
    static std::string name;
    return name;
  }
  static std::unique_ptr<Recorder> open(uint64_t id) {
    std::unique_ptr<Recorder> made;
    const Status opened = record::open(folder(), {id, 1, 3, "shm+tcp"}, &made);
    EXPECT_TRUE(opened.ok()) << opened.text();
    return made;
  }
  static std::vector<std::byte> file() {
    std::vector<std::filesystem::path> all;
    for (const auto& one : std::filesystem::directory_iterator(folder())) all.push_back(one);
    EXPECT_EQ(all.size(), 1u);
    return contents(all.at(0));
  }
  static ReadProcess read_file() {
    ReadProcess process;
    const Status read = record::read(file(), "it", &process);
    EXPECT_TRUE(read.ok()) << read.text();
    return process;
  }
  static ReadComm read_comm(uint64_t id) {
    for (const ReadComm& comm : read_file().comms)
      if (comm.id == id) return comm;
    ADD_FAILURE() << "no communicator " << id;
    return {};
  }
};

TEST_F(FlightRecord, KeepsTheLast256Calls) {
  const auto recorder = open(71);
  for (uint64_t call = 1; call <= 300; ++call)
    recorder->leave(recorder->enter(call, signature(call)));
  recorder->enter(message(2, true), signature(4));
  const ReadComm comm = read_comm(71);
  EXPECT_EQ(comm.rank, 1);
  EXPECT_EQ(comm.nranks, 3);
  EXPECT_EQ(comm.transport, "shm+tcp");
  EXPECT_FALSE(comm.freed);
  ASSERT_EQ(comm.calls.size(), ring_entries);
  for (size_t i = 0; i + 1 < comm.calls.size(); ++i) {
    EXPECT_EQ(comm.calls[i].number, 46 + i);
    EXPECT_EQ(comm.calls[i].signature.count, 46 + i);
    EXPECT_EQ(comm.calls[i].state, State::left);
  }
  EXPECT_EQ(comm.last()->number, 300u);
  const ReadCall* const open = comm.open();
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->number, 0u);
  EXPECT_EQ(open->peer, 2);
  EXPECT_TRUE(open->sends);
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  EXPECT_NEAR(double(open->entered_ns), double(now.tv_sec) * 1e9, 60e9);
}

TEST_F(FlightRecord, HasForWhomACallWaitsAndWhyItFailed) {
  const auto recorder = open(72);
  recorder->leave(recorder->enter(1, signature(1)));
  const uint32_t entry = recorder->enter(2, signature(9));
  const Recorder::Way way{"tcp", "10.0.0.1:4711 to 10.0.0.2:4712"};
  recorder->waits(entry, 2, way, 1000);
  recorder->waits(entry, 2, way, 3000);
  ReadComm comm = read_comm(72);
  ASSERT_NE(comm.wait_of(*comm.open()), nullptr);
  EXPECT_EQ(comm.wait.peer, 2);
  EXPECT_EQ(comm.wait.link, "tcp");
  EXPECT_EQ(comm.wait.addresses, "10.0.0.1:4711 to 10.0.0.2:4712");
  EXPECT_EQ(comm.wait.seen_ns - comm.wait.since_ns, 2000);
  recorder->fail({TUTTI_PEER_FAILED, "rank 2\ndied", 2, 2});
  recorder->fail({TUTTI_TIMEOUT, "later", 0, 2});
  comm = read_comm(72);
  EXPECT_EQ(comm.failure.code, TUTTI_PEER_FAILED);
  EXPECT_EQ(comm.failure.rank, 2);
  EXPECT_EQ(comm.failure.text, "rank 2 died");
  EXPECT_EQ(comm.calls[0].state, State::left);
  EXPECT_EQ(comm.calls[1].state, State::failed);
}

TEST_F(FlightRecord, UsesPlacesOfFreedCommunicatorsAgain) {
  for (uint64_t id = 1000; id < 1100; ++id) open(id);
  const ReadProcess process = read_file();
  EXPECT_LE(process.comms.size(), 66u);
  EXPECT_EQ(read_comm(1099).freed, true);
  EXPECT_TRUE(read_comm(1099).calls.empty());
}

TEST_F(FlightRecord, OfAChildIsAnotherFile) {
  open(73);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = folder() + "/child";
    std::filesystem::create_directory(own);
    std::unique_ptr<Recorder> made;
    _exit(record::open(own, {74, 0, 2, "shm"}, &made).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::vector<std::filesystem::path> all;
  for (const auto& one : std::filesystem::directory_iterator(folder() + "/child"))
    all.push_back(one);
  ASSERT_EQ(all.size(), 1u);
  ReadProcess process;
  ASSERT_TRUE(record::read(contents(all[0]), "it", &process).ok());
  EXPECT_EQ(process.process, child);
  ASSERT_EQ(process.comms.size(), 1u);
  EXPECT_EQ(process.comms[0].id, 74u);
  std::filesystem::remove_all(folder() + "/child");
  EXPECT_EQ(read_file().process, getpid());
}

TEST_F(FlightRecord, IsRefusedWhereItIsNone) {
  open(75);
  const std::vector<std::byte> good = file();
  const auto refusal = [&](std::vector<std::byte> bytes) {
    ReadProcess process;
    const Status read = record::read(bytes, "it", &process);
    EXPECT_EQ(read.code(), TUTTI_CORRUPT);
    EXPECT_TRUE(process.comms.empty());
    return read.text();
  };
  const auto with = [&](size_t at, uint32_t value) {
    std::vector<std::byte> bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return bytes;
  };
  EXPECT_EQ(refusal({}), "it is no flight record: it is too short");
  EXPECT_EQ(refusal(with(0, 1)), "it is no flight record");
  EXPECT_EQ(refusal(std::vector<std::byte>(header_bytes)),
            "it is an empty flight record: its process ended while it began it");
  EXPECT_NE(refusal(with(offsetof(FileHeader, version), 77)).find("another version"),
            std::string::npos);
  EXPECT_NE(refusal(with(offsetof(FileHeader, slots), 0xffffffff)).find("is cut off"),
            std::string::npos);
  EXPECT_NE(refusal({good.begin(), good.begin() + header_bytes + 100}).find("is cut off"),
            std::string::npos);
}

// An entry that was being written, in whichever step that broke off, is left out.
TEST_F(FlightRecord, LeavesOutWhatWasBeingWritten) {
  const auto recorder = open(76);
  for (uint64_t call = 1; call <= 3; ++call)
    recorder->leave(recorder->enter(call, signature(call)));
  std::vector<std::byte> bytes = file();
  ReadProcess process;
  ASSERT_TRUE(record::read(bytes, "it", &process).ok());
  size_t slot = header_bytes;
  for (CommHeader header{}; header.id != 76; slot += slot_bytes)
    std::memcpy(static_cast<void*>(&header), bytes.data() + slot, sizeof(header));
  slot -= slot_bytes;
  const size_t entry = slot + offsetof(Slot, ring) + 2 * sizeof(Entry);
  const auto calls_with = [&](size_t at, uint32_t value) {
    std::vector<std::byte> torn = bytes;
    std::memcpy(torn.data() + entry + at, &value, sizeof(value));
    EXPECT_TRUE(record::read(torn, "it", &process).ok());
    for (const ReadComm& comm : process.comms)
      if (comm.id == 76) return comm.calls.size();
    return size_t{0};
  };
  EXPECT_EQ(calls_with(offsetof(Entry, left_ns), 0), 3u);
  EXPECT_EQ(calls_with(offsetof(Entry, sequence), 0), 2u);
  EXPECT_EQ(calls_with(offsetof(Entry, sequence), 258), 2u);
  EXPECT_EQ(calls_with(offsetof(Entry, tail), tail_of(258, State::left)), 2u);
  EXPECT_EQ(calls_with(offsetof(Entry, tail), tail_of(2, State::none)), 2u);
}

// Of records whose processes have ended, one is marked when it is first seen, and goes a day later.
TEST(OwnFolder, KeepsARecordForADayAfterItsEndWasSeen) {
  std::string base = ::testing::TempDir() + "tutti-own-XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const std::string folder = own_folder(base), ended = folder + "/host-1-a.record";
  ASSERT_TRUE(make_own_folder(folder).ok());
  std::ofstream(ended) << "x";
  const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, ended.c_str(), long_ago, 0), 0);
  ASSERT_TRUE(make_own_folder(folder).ok());
  EXPECT_TRUE(std::filesystem::exists(ended)) << "only now somebody has seen that it ended";
  ASSERT_TRUE(make_own_folder(folder).ok());
  EXPECT_TRUE(std::filesystem::exists(ended));
  ASSERT_EQ(utimensat(AT_FDCWD, ended.c_str(), long_ago, 0), 0);
  ASSERT_TRUE(make_own_folder(folder).ok());
  EXPECT_FALSE(std::filesystem::exists(ended));
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  EXPECT_EQ(make_own_folder(folder).code(), TUTTI_INVALID) << "others may write there";
  std::filesystem::remove_all(base);
}

// Whoever reads them takes differences, which must not overflow.
TEST_F(FlightRecord, DamagedTimesAreNotNegative) {
  const auto recorder = open(77);
  recorder->leave(recorder->enter(1, signature(1)));
  std::vector<std::byte> bytes = file();
  const int64_t offset = INT64_MIN / 4 * 3;
  std::memcpy(bytes.data() + offsetof(FileHeader, realtime_ns), &offset, sizeof(offset));
  ReadProcess process;
  ASSERT_TRUE(record::read(bytes, "it", &process).ok());
  for (const ReadComm& comm : process.comms) {
    EXPECT_GE(comm.made_ns, 0);
    for (const ReadCall& call : comm.calls) EXPECT_GE(call.entered_ns, 0);
  }
}

}  // namespace
}  // namespace tutti::record
