// Communicators with tuning tables: whatever a table says that is not refused, calls are right; all
// ranks have one table, and say which.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>

#include "lib/select/trial.h"
#include "lib/tuning/file.h"
#include "tests/support/kept_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::Field;
using tutti::TuningTable;
using tutti::Use;
using tutti::testing::on_threads;
using tutti::testing::sanitized;
using tutti::testing::sentence;

// A file that is gone with the test.
class File {
 public:
  explicit File(const std::string& name)
      : path_(::testing::TempDir() + "tables_test." + std::to_string(getpid()) + "." + name) {}
  File(const std::string& name, const TuningTable& table) : File(name) {
    EXPECT_TRUE(tutti::write_tuning(table, path_).ok());
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

tutti_status create(const tutti_unique_id& id, int rank, int nranks, const char* transports,
                    const char* tuning, tutti_comm* comm) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = transports;
  config.timeout_ms = config.setup_ms = 20'000;
  config.tuning = tuning;
  return tutti_comm_create_from_id(&id, rank, nranks, &config, comm);
}

// Everything at its least, and the two words.
TuningTable least(Use single_copy, Use past_caches) {
  TuningTable table;
  for (size_t i = 0; i < tutti::field_count; ++i) {
    table.set(Field(i), tutti::tuning_field(Field(i)).least, tutti::Origin::file);
  }
  table.set(Field::single_copy, double(single_copy), tutti::Origin::file);
  table.set(Field::past_caches, double(past_caches), tutti::Origin::file);
  return table;
}

// Large, and odd where that is allowed.
TuningTable large(Use past_caches) {
  TuningTable table;
  const auto set = [&](Field field, double value) {
    table.set(field, value, tutti::Origin::measured);
  };
  set(Field::resident_bytes, 64 << 10);
  set(Field::one_shot_bytes, 777'777);
  set(Field::rotated_bytes, (3 << 20) + 192);
  set(Field::few_arena_bytes, (7 << 20) + 64);
  set(Field::two_shot_slice_bytes, (200 << 10) + 64);
  set(Field::two_shot_window, 1 << 10);
  set(Field::ring_bytes, 4 << 20);
  set(Field::one_hop_lines, 64);
  set(Field::one_hop_slice_bytes, (1 << 20) + 320);
  set(Field::least_one_hop_slice_bytes, 12'345);
  set(Field::past_caches, double(past_caches));
  set(Field::tried_bytes, 64);
  set(Field::tried_one_hop_bytes, 64);
  set(Field::tried_crowded_bytes, 64);
  set(Field::copied_land_bytes, (16 << 10) + 64);
  set(Field::copied_gather_bytes, (20 << 10) + 64);
  set(Field::write_prefetch_bytes, 4 << 20);
  set(Field::write_prefetch_taking_bytes, 4 << 20);
  set(Field::refetched_lines, 64);
  set(Field::fetch_pages, 8);
  set(Field::fetch_ahead_bytes, 1 << 20);
  set(Field::cache_bytes, 128 << 10);  // so that everything long goes past it
  set(Field::two_shot_piece_bytes, 16 << 10);
  set(Field::streamed_piece_bytes, 16 << 10);
  set(Field::direct_piece_bytes, 320);
  set(Field::direct_streamed_bytes, 16 << 10);
  set(Field::direct_slice_bytes, 5 << 10);
  set(Field::slots, 32);
  set(Field::slot_bytes, (64 << 10) + 64);
  set(Field::executor_piece_bytes, 4'099);
  set(Field::tcp_small_bytes, 0);
  return table;
}

// Every length and number of slices drawn, half of them as by default; as long as a communicator
// takes a few MiB.
TuningTable drawn(std::mt19937_64& random) {
  constexpr double most_bytes = 4 << 20;
  TuningTable table;
  const auto draw = [&](const tutti::FieldInfo& field) {
    const double least = std::max(field.least, 1.0), most = std::min(field.most, most_bytes);
    const double part = double(random() >> 11) / double(uint64_t{1} << 53);
    double value = std::floor(std::exp(std::log(least) + part * std::log(most / least)));
    if (field.shape == tutti::Shape::lines) value = std::floor(value / 64) * 64;
    if (field.shape == tutti::Shape::power) value = std::exp2(std::floor(std::log2(value)));
    return std::clamp(value, field.least, most);
  };
  for (size_t i = 0; i < tutti::field_count; ++i) {
    const tutti::FieldInfo& field = tutti::tuning_field(Field(i));
    const std::string unit = field.unit;
    const bool is_length =
        unit == "B" || unit == "slices" || unit == "lines" || unit == "pages" || unit == "slots";
    if (is_length && random() % 2 == 0) table.set(Field(i), draw(field), tutti::Origin::file);
  }
  for (const Field field : {Field::single_copy, Field::past_caches})
    table.set(field, double(random() % 3), tutti::Origin::file);
  std::array<Field, 2> about{};
  while (!why_not(table.values(), &about).empty()) {
    for (const Field field : about)
      table.set(field, get(tutti::default_tuning, field), tutti::Origin::file);
  }
  return table;
}

int32_t value(int rank, size_t i) { return int32_t((i * 7 + size_t(rank) * 131) % 1009); }

// Calls of many lengths, one after the other, whose results are known.
void check_calls(int rank, int n, bool symmetric, size_t longest, tutti_comm comm) {
  for (const size_t count : {3u, 12u, 100u, 2'000u, 9'001u, 40'003u, 150'001u, 50u}) {
    if (count > longest) continue;
    const size_t blocks = count * size_t(n);
    std::vector<int32_t> in(blocks), out(blocks, -1);
    void *symmetric_in = nullptr, *symmetric_out = nullptr;
    int32_t *from = in.data(), *to = out.data();
    if (symmetric) {
      ASSERT_EQ(tutti_mem_alloc(comm, blocks * 4, &symmetric_in), TUTTI_OK);
      ASSERT_EQ(tutti_mem_alloc(comm, blocks * 4, &symmetric_out), TUTTI_OK);
      from = static_cast<int32_t*>(symmetric_in), to = static_cast<int32_t*>(symmetric_out);
    }
    for (size_t i = 0; i < blocks; ++i) from[i] = value(rank, i);
    const auto expect = [&](const char* call, size_t length, auto&& wanted) {
      size_t wrong = 0;
      while (wrong < length && to[wrong] == wanted(wrong)) ++wrong;
      EXPECT_EQ(wrong, length) << call << " of " << count << " on rank " << rank << " of " << n;
      std::fill(to, to + blocks, -1);
    };
    const auto sum = [&](size_t i) {
      int32_t all = 0;
      for (int r = 0; r < n; ++r) all += value(r, i);
      return all;
    };
    for (const char* algorithm : {"auto", "two-shot", "ring", "butterfly"}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = algorithm;
      ASSERT_EQ(tutti_allreduce_with(from, to, count, TUTTI_INT32, TUTTI_SUM, comm, &config),
                TUTTI_OK)
          << sentence(comm);
      expect(algorithm, count, sum);
    }
    ASSERT_EQ(tutti_allgather(from, to, count, TUTTI_INT32, comm), TUTTI_OK) << sentence(comm);
    expect("allgather", blocks, [&](size_t i) { return value(int(i / count), i % count); });
    ASSERT_EQ(tutti_alltoall(from, to, count, TUTTI_INT32, comm), TUTTI_OK) << sentence(comm);
    expect("alltoall", blocks,
           [&](size_t i) { return value(int(i / count), size_t(rank) * count + i % count); });
    ASSERT_EQ(tutti_reduce_scatter_block(from, to, count, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    expect("reduce_scatter", count, [&](size_t i) { return sum(size_t(rank) * count + i); });
    ASSERT_EQ(tutti_reduce(from, to, count, TUTTI_INT32, TUTTI_SUM, 1, comm), TUTTI_OK)
        << sentence(comm);
    if (rank == 1) expect("reduce", count, sum);
    ASSERT_EQ(tutti_broadcast(from, count, TUTTI_INT32, 1, comm), TUTTI_OK) << sentence(comm);
    std::copy(from, from + count, to);
    expect("broadcast", count, [&](size_t i) { return value(1, i); });
    if (symmetric) {
      EXPECT_EQ(tutti_mem_free(comm, symmetric_in), TUTTI_OK);
      EXPECT_EQ(tutti_mem_free(comm, symmetric_out), TUTTI_OK);
    }
  }
}

void check_table(const TuningTable& table, int n, const char* transports, bool symmetric,
                 int passes = 1) {
  const File file("any", table);
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  const size_t longest_again = sanitized ? 9'001 : 150'001;
  on_threads(n, [&](int rank) {
    tutti_comm comm = nullptr;
    ASSERT_EQ(create(id, rank, n, transports, file.path(), &comm), TUTTI_OK) << tutti_last_error();
    for (int pass = 0; pass < passes; ++pass)
      check_calls(rank, n, symmetric, pass == 0 ? 150'001 : longest_again, comm);
    EXPECT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

TEST(AnyTable, OfSmallValuesGivesTheSameResults) {
  check_table(least(Use::never, Use::never), 2, "shm", false);
  check_table(least(Use::always, Use::always), 3, "shm", false);
  check_table(least(Use::automatic, Use::automatic), 5, "shm", true);
  check_table(least(Use::automatic, Use::automatic), 2, "tcp", false);
}

TEST(AnyTable, OfLargeValuesGivesTheSameResults) {
  check_table(large(Use::always), 2, "shm", false);
  check_table(large(Use::never), 3, "shm", true);
  check_table(large(Use::automatic), 3, "tcp", false);
}

// What is longer than a line for flags is also long enough to be copied from where it lies.
TEST(AnyTable, OfSingleCopyOfWhatFitsIntoLinesGivesTheSameResults) {
  TuningTable table;
  table.set(Field::single_copy, double(Use::always), tutti::Origin::file);
  table.set(Field::single_copy_bytes, 64, tutti::Origin::file);
  check_table(table, 2, "shm", false);
  check_table(table, 3, "shm", false);
}

// A slice is then copied in several pieces.
TEST(AnyTable, OfPiecesShorterThanASliceGivesTheSameResults) {
  TuningTable table;
  table.set(Field::single_copy, double(Use::always), tutti::Origin::file);
  table.set(Field::single_copy_piece_bytes, 5 << 10, tutti::Origin::file);
  table.set(Field::direct_slice_bytes, 4 << 10, tutti::Origin::file);
  check_table(table, 2, "shm", false);
  check_table(table, 3, "shm", false);
  check_table(table, 3, "shm", true);
}

TEST(AnyTable, OfMoreLinesThanThereAreFlagsGivesTheSameResults) {
  TuningTable table;
  table.set(Field::ring_slices, 4, tutti::Origin::file);
  table.set(Field::one_hop_lines, 64, tutti::Origin::file);
  check_table(table, 2, "shm", false);
  check_table(table, 5, "shm", false);
}

void check_drawn(uint64_t first, uint64_t tables) {
  for (uint64_t seed = first; seed < first + tables; ++seed) {
    SCOPED_TRACE("table of seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const TuningTable table = drawn(random);
    check_table(table, 2 + int(random() % 4), seed % 8 == 7 ? "tcp" : "shm", random() % 3 == 0,
                random() % 4 == 0 ? int(tutti::Trial::calls_to_settle) + 4 : 1);
    if (::testing::Test::HasFailure()) {
      printf("%s\n", print_tuning(table).c_str());
      return;
    }
  }
}

TEST(AnyTable, OfAnyLengthsGivesTheSameResults) { check_drawn(1, sanitized ? 6 : 24); }

TEST(AnyTable, LongOfAnyLengthsGivesTheSameResults) { check_drawn(1'000, 1'000); }

// Each length is called so often that all of its ways are tried, and one is settled.
TEST(AnyTable, TriesWaysThatGiveTheSameResults) {
  constexpr int passes = int(tutti::Trial::calls_to_settle) + 4;
  TuningTable table;
  table.set(Field::tried_bytes, 64, tutti::Origin::measured);
  table.set(Field::tried_one_hop_bytes, 64, tutti::Origin::measured);
  table.set(Field::tried_crowded_bytes, 64, tutti::Origin::measured);
  table.set(Field::ring_bytes, 128 << 10, tutti::Origin::measured);
  table.set(Field::one_hop_slice_bytes, 16 << 10, tutti::Origin::measured);
  table.set(Field::least_one_hop_slice_bytes, 1 << 10, tutti::Origin::measured);
  check_table(table, 2, "shm", false, passes);
  check_table(table, 3, "shm", false, passes);
  check_table(table, 2, "shm", true, passes);
  check_table(table, 2, "tcp", false, passes);
  check_table(table, 3, "tcp", false, passes);
}

TEST(Tables, ThatDifferAreNamedOnAllRanks) {
  TuningTable one;
  one.set(Field::spins, 75, tutti::Origin::measured);
  const File file("one", one);
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(3, [&](int rank) {
    tutti_comm comm = nullptr;
    EXPECT_EQ(create(id, rank, 3, "shm", rank == 1 ? file.path() : "none", &comm), TUTTI_MISMATCH);
    EXPECT_EQ(comm, nullptr);
    const std::string text = tutti_last_error();
    EXPECT_NE(text.find("tuning table"), std::string::npos) << text;
    EXPECT_NE(text.find(one.id()), std::string::npos) << text;
    EXPECT_NE(text.find("default"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  });
}

TEST(Tables, ThatAreNoneAreRefusedWithTheLine) {
  const File file("broken");
  std::ofstream(file.path()) << "{\"tutti_tuning\": 1,\n\"set\": {\"ring_bytes\": 3}}";
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.tuning = file.path();
  tutti_comm comm = nullptr;
  EXPECT_EQ(tutti_comm_create_from_env(&config, &comm), TUTTI_INVALID);
  EXPECT_EQ(tutti_last_error(),
            std::string(file.path()) + ", line 2: ring_bytes must be from 65536 to 268435456");
  config.tuning = "/nowhere/table.json";
  EXPECT_EQ(tutti_comm_create_from_env(&config, &comm), TUTTI_INVALID);
}

TEST(Tables, AreNamedByExplainAndTheLogAndKeptByPartsOfACommunicator) {
  TuningTable one;
  // So slow by its hops that anything else is chosen.
  one.set(Field::one_shot_hops, 1'000, tutti::Origin::measured);
  const File file("one", one);
  const tutti::testing::KeptLog log;
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(2, [&](int rank) {
    tutti_comm comm = nullptr, part = nullptr;
    ASSERT_EQ(create(id, rank, 2, "shm", file.path(), &comm), TUTTI_OK) << tutti_last_error();
    ASSERT_EQ(tutti_comm_dup(comm, &part), TUTTI_OK) << sentence(comm);
    for (tutti_comm each : {comm, part}) {
      tutti_explanation explained{};
      explained.size = sizeof(explained);
      ASSERT_EQ(tutti_allreduce_explain(1, TUTTI_FLOAT32, TUTTI_SUM, each, nullptr, &explained),
                TUTTI_OK);
      EXPECT_EQ(explained.tuning, one.id());
      EXPECT_STRNE(explained.algorithm, "all-to-all") << "the table decides";
    }
    EXPECT_EQ(tutti_comm_free(part), TUTTI_OK);
    EXPECT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
  const std::vector<std::string> said = log.lines();
  ASSERT_EQ(said.size(), 4u);
  EXPECT_NE(said[0].find(one.id()), std::string::npos) << said[0];
}

// What a rank's small allreduces cost behind the first 1,000: neither counts what other threads do.
struct Cost {
  double sleeps = 0, us = 0;  // a call; us of the processor
};

Cost cost_of_calls(const TuningTable& table, int n) {
  constexpr int warm = 1'000, calls = 1'000;
  const File file("wrong", table);
  tutti_unique_id id{};
  EXPECT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  std::atomic<long> sleeps = 0, us = 0;
  on_threads(n, [&](int rank) {
    tutti_comm comm = nullptr;
    ASSERT_EQ(create(id, rank, n, "shm", file.path(), &comm), TUTTI_OK) << tutti_last_error();
    const auto microseconds = [](const timeval& time) {
      return long(time.tv_sec) * 1'000'000 + long(time.tv_usec);
    };
    rusage before{}, after{};
    for (int call = 0; call < warm + calls; ++call) {
      if (call == warm) getrusage(RUSAGE_THREAD, &before);
      int32_t sum = 0;
      ASSERT_EQ(tutti_allreduce(&rank, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(sum, n * (n - 1) / 2);
    }
    getrusage(RUSAGE_THREAD, &after);
    sleeps += after.ru_nvcsw - before.ru_nvcsw;
    us += microseconds(after.ru_utime) - microseconds(before.ru_utime);
    us += microseconds(after.ru_stime) - microseconds(before.ru_stime);
    EXPECT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
  const double all = double(n) * calls;
  return {double(sleeps) / all, double(us) / all};
}

TuningTable waiting(tutti::Origin origin, uint32_t crowded_spins, uint32_t yields) {
  TuningTable table;
  for (const Field field : {Field::yields, Field::crowded_yields}) table.set(field, yields, origin);
  for (const Field field : {Field::crowded_spins, Field::crowded_lone_spins})
    table.set(field, crowded_spins, origin);
  table.set(Field::spins, 1, origin);
  return table;
}

TEST(WrongTable, ThatLetsRanksSleepIsCorrected) {
  const Cost measured = cost_of_calls(waiting(tutti::Origin::measured, 1, 0), 2);
  const Cost set = cost_of_calls(waiting(tutti::Origin::file, 1, 0), 2);
  printf("sleeps a call: %.3f, %.3f where it is set\n", measured.sleeps, set.sleeps);
  EXPECT_LT(measured.sleeps, 0.25 * set.sleeps);
}

TEST(WrongTable, ThatLetsRanksSpinInVainIsCorrected) {
  const int n = 2 * int(sysconf(_SC_NPROCESSORS_ONLN));
  if (n > 16) GTEST_SKIP() << "takes more cores than that to fill";
  const Cost measured = cost_of_calls(waiting(tutti::Origin::measured, 10'000, 2'000), n);
  const Cost set = cost_of_calls(waiting(tutti::Origin::file, 10'000, 2'000), n);
  printf("us a call: %.1f, %.1f where it is set\n", measured.us, set.us);
  EXPECT_LT(measured.us, 0.5 * set.us);
}

}  // namespace
