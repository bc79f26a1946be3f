// Memory that runs out in the middle of anything: the first allocation that a rank makes in it
// fails, then in a new try the second, and so on until one gets through. Either the call ends well
// on all ranks, or it fails, where the memory ran out and everywhere else, at once.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

// Allocations of this thread until one fails; -1: none does.
thread_local int64_t allocations_left = -1;
thread_local bool failed = false;

bool fails_now() {
  if (allocations_left < 0 || allocations_left-- != 0) return false;
  failed = true;
  return true;
}

void* allocate(size_t bytes, size_t alignment) {
  if (fails_now()) return nullptr;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded != 0 ? rounded : alignment);
}
void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
// Where the compiler inlines one half of a pair it misses the other.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(size_t bytes) {
  return allocate_or_throw(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](size_t bytes) {
  return allocate_or_throw(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, size_t(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, size_t(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using tutti::testing::on_threads;
using tutti::testing::sanitized;
using tutti::testing::sentence;
using Clock = std::chrono::steady_clock;

constexpr int nranks = 3;
constexpr int victim = 1;
constexpr double at_once = 4;  // seconds, on a busy machine

// What a rank has in a try. Buffers are there before memory gets short.
struct Rank {
  int rank = 0;
  tutti_comm comm = nullptr;
  std::vector<int64_t> in, out, expected;
  std::vector<float> floats, sums;
  std::vector<size_t> counts, displs;
  std::vector<uint32_t> indices, merged;
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  tutti_request request = nullptr;
  tutti_comm part = nullptr;
};

struct Scene {
  std::string name;
  std::function<void(Rank&)> prepare;
  std::function<tutti_status(Rank&)> call;
};

std::ostream& operator<<(std::ostream& out, const Scene& scene) { return out << scene.name; }

void vectors(Rank& r, size_t count, size_t out_count) {
  r.in.resize(count);
  std::iota(r.in.begin(), r.in.end(), int64_t(r.rank));
  r.out.assign(out_count, -1);
}
// in[i] of rank r is i + r.
void expect_sum(Rank& r, int ranks = nranks) {
  r.expected.resize(r.in.size());
  for (size_t i = 0; i < r.in.size(); ++i) {
    r.expected[i] = int64_t(i) * ranks + int64_t(ranks) * (ranks - 1) / 2;
  }
}

Scene allreduce(const std::string& name, size_t count, const char* algorithm, uint32_t flags) {
  return {name,
          [=](Rank& r) {
            vectors(r, count, count);
            expect_sum(r);
            r.config.algorithm = algorithm;
            r.config.flags = flags;
          },
          [=](Rank& r) {
            return tutti_allreduce_with(r.in.data(), r.out.data(), count, TUTTI_INT64, TUTTI_SUM,
                                        r.comm, &r.config);
          }};
}

std::vector<Scene> scenes() {
  std::vector<Scene> all = {
      allreduce("short", 3, nullptr, 0),
      allreduce("some", 4'000, nullptr, 0),
      allreduce("long", 300'000, nullptr, 0),
      allreduce("ring", 5'000, "ring", TUTTI_CALL_UNFUSED),
      allreduce("butterfly", 5'000, "butterfly", TUTTI_CALL_UNFUSED),
  };
  all.push_back({"in_place_reduce_scatter",
                 [](Rank& r) {
                   vectors(r, 0, 3000);
                   std::iota(r.out.begin(), r.out.end(), int64_t(r.rank));
                   r.expected.resize(1000);
                   for (size_t i = 0; i < 1000; ++i) {
                     r.expected[i] = int64_t(1000 * size_t(r.rank) + i) * nranks + 3;
                   }
                 },
                 [](Rank& r) {
                   const tutti_status status = tutti_reduce_scatter_block(
                       TUTTI_IN_PLACE, r.out.data(), 1000, TUTTI_INT64, TUTTI_SUM, r.comm);
                   r.out.resize(1000);
                   return status;
                 }});
  all.push_back({"scan",
                 [](Rank& r) {
                   vectors(r, 500, 500);
                   expect_sum(r, r.rank + 1);
                 },
                 [](Rank& r) {
                   return tutti_scan(r.in.data(), r.out.data(), 500, TUTTI_INT64, TUTTI_SUM,
                                     r.comm);
                 }});
  all.push_back({"alltoallv",
                 [](Rank& r) {
                   vectors(r, 900, 900);
                   r.counts.assign(nranks, 200);
                   r.displs = {0, 300, 600};
                   r.expected.assign(900, -1);
                   for (size_t from = 0; from < nranks; ++from) {
                     for (size_t i = 0; i < 200; ++i) {
                       r.expected[from * 300 + i] = int64_t(300 * size_t(r.rank) + i + from);
                     }
                   }
                 },
                 [](Rank& r) {
                   return tutti_alltoallv(r.in.data(), r.counts.data(), r.displs.data(),
                                          r.out.data(), r.counts.data(), r.displs.data(),
                                          TUTTI_INT64, r.comm);
                 }});
  all.push_back({"gatherv",
                 [](Rank& r) {
                   vectors(r, 100, r.rank == 0 ? 300 : 0);
                   r.counts.assign(nranks, 100);
                   if (r.rank != 0) return;
                   for (int from = 0; from < nranks; ++from) {
                     for (int64_t i = 0; i < 100; ++i) r.expected.push_back(i + from);
                   }
                 },
                 [](Rank& r) {
                   return tutti_gatherv(r.in.data(), 100, r.out.data(), r.counts.data(), nullptr,
                                        TUTTI_INT64, 0, r.comm);
                 }});
  all.push_back({"nonblocking",
                 [](Rank& r) {
                   vectors(r, 4'000, 4'000);
                   expect_sum(r);
                 },
                 [](Rank& r) {
                   const tutti_status begun =
                       tutti_iallreduce(r.in.data(), r.out.data(), r.in.size(), TUTTI_INT64,
                                        TUTTI_SUM, r.comm, nullptr, &r.request);
                   return begun == TUTTI_OK ? tutti_wait(&r.request) : begun;
                 }});
  all.push_back({"behind_another",
                 [](Rank& r) {
                   vectors(r, 4'000, 4'000);
                   expect_sum(r);
                 },
                 [](Rank& r) {
                   const tutti_status begun =
                       tutti_iallreduce(r.in.data(), r.out.data(), r.in.size(), TUTTI_INT64,
                                        TUTTI_SUM, r.comm, nullptr, &r.request);
                   if (begun != TUTTI_OK) return begun;
                   const tutti_status behind = tutti_barrier(r.comm);
                   const tutti_status first = tutti_waitall(1, &r.request);
                   return first != TUTTI_OK ? first : behind;
                 }});
  all.push_back({"persistent",
                 [](Rank& r) {
                   vectors(r, 4'000, 4'000);
                   expect_sum(r);
                 },
                 [](Rank& r) {
                   tutti_status status =
                       tutti_allreduce_init(r.in.data(), r.out.data(), r.in.size(), TUTTI_INT64,
                                            TUTTI_SUM, r.comm, nullptr, &r.request);
                   // Local: it may be tried again.
                   if (status != TUTTI_OK) {
                     status =
                         tutti_allreduce_init(r.in.data(), r.out.data(), r.in.size(), TUTTI_INT64,
                                              TUTTI_SUM, r.comm, nullptr, &r.request);
                   }
                   for (int i = 0; i < 2 && status == TUTTI_OK; ++i) {
                     status = tutti_start(r.request);
                     size_t index = TUTTI_NO_REQUEST;
                     if (status == TUTTI_OK) status = tutti_waitany(1, &r.request, &index);
                     // It, too, unless it was the call that it found ended.
                     if (status == TUTTI_NO_MEMORY && index == TUTTI_NO_REQUEST) {
                       status = tutti_wait(&r.request);
                     }
                   }
                   const tutti_status freed = tutti_request_free(&r.request);
                   return status != TUTTI_OK ? status : freed;
                 }});
  all.push_back({"messages",
                 [](Rank& r) {
                   vectors(r, 3'000, 3'000);
                   r.expected.resize(3'000);
                   std::iota(r.expected.begin(), r.expected.end(),
                             int64_t((r.rank + nranks - 1) % nranks));
                 },
                 [](Rank& r) {
                   const int to = (r.rank + 1) % nranks, from = (r.rank + nranks - 1) % nranks;
                   return tutti_sendrecv(r.in.data(), 3'000, to, 1, r.out.data(), 3'000, from, 1,
                                         TUTTI_INT64, r.comm);
                 }});
  all.push_back({"group",
                 [](Rank& r) {
                   vectors(r, 3'000, 3'000);
                   r.expected.resize(3'000);
                   std::iota(r.expected.begin(), r.expected.end(),
                             int64_t((r.rank + nranks - 1) % nranks));
                 },
                 [](Rank& r) {
                   const int to = (r.rank + 1) % nranks, from = (r.rank + nranks - 1) % nranks;
                   tutti_status status = tutti_group_begin(r.comm);
                   if (status == TUTTI_OK) {
                     status = tutti_send(r.in.data(), 3'000, TUTTI_INT64, to, 1, r.comm);
                   }
                   if (status == TUTTI_OK) {
                     status = tutti_recv(r.out.data(), 3'000, TUTTI_INT64, from, 1, r.comm);
                   }
                   if (status == TUTTI_OK) return tutti_group_end(r.comm);
                   return tutti_group_cancel(r.comm) == TUTTI_OK ? status : TUTTI_INTERNAL;
                 }});
  all.push_back({"sparse",
                 [](Rank& r) {
                   r.indices = {uint32_t(r.rank), 50};
                   r.floats = {1, 2};
                   r.merged.resize(10);
                   r.sums.resize(10);
                 },
                 [](Rank& r) {
                   const tutti_sparse_in mine{r.indices.data(), r.floats.data(), 2};
                   tutti_sparse_out all{r.merged.data(), r.sums.data(), 10, 0};
                   const tutti_status status =
                       tutti_allreduce_sparse(&mine, &all, 100, TUTTI_FLOAT32, TUTTI_SUM, r.comm);
                   if (status == TUTTI_OK && (all.entries != 4 || r.sums[3] != 6)) {
                     return TUTTI_INTERNAL;
                   }
                   return status;
                 }});
  all.push_back({"coded",
                 [](Rank& r) {
                   r.floats.assign(1000, 1);
                   r.sums.assign(1000, 0);
                 },
                 [](Rank& r) {
                   const tutti_codec* codec = nullptr;
                   if (tutti_codec_from_name("bf16", &codec) != TUTTI_OK) return TUTTI_INTERNAL;
                   const tutti_status status = tutti_allreduce_coded(
                       r.floats.data(), r.sums.data(), 1000, TUTTI_SUM, codec, r.comm);
                   return status == TUTTI_OK && r.sums[999] != nranks ? TUTTI_INTERNAL : status;
                 }});
  all.push_back({"split", [](Rank&) {},
                 [](Rank& r) { return tutti_comm_split(r.comm, 0, -r.rank, &r.part); }});
  all.push_back({"create_group", [](Rank&) {},
                 [](Rank& r) {
                   const int ranks[] = {2, 1, 0};
                   return tutti_comm_create_group(r.comm, ranks, nranks, &r.part);
                 }});
  all.push_back({"mem_alloc", [](Rank&) {},
                 [](Rank& r) {
                   void* memory = nullptr;
                   return tutti_mem_alloc(r.comm, 100'000, &memory);
                 }});
  return all;
}

// Whether the allocation that was to fail was made.
bool attempt(const Scene& scene, const char* transport, int64_t fails_at) {
  tutti_unique_id id{};
  EXPECT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  bool ran_out = false;
  std::atomic<bool> all_well = true;  // of any rank
  tutti_status of_victim = TUTTI_OK;
  on_threads(nranks, [&](int rank) {
    const std::string where =
        scene.name + ", allocation " + std::to_string(fails_at) + ", rank " + std::to_string(rank);
    Rank r;
    r.rank = rank;
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transport;
    config.timeout_ms = 20'000;
    config.setup_ms = 20'000;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &r.comm), TUTTI_OK)
        << tutti_last_error();
    scene.prepare(r);
    const auto begin = Clock::now();
    if (rank == victim) allocations_left = fails_at;
    const tutti_status status = scene.call(r);
    allocations_left = -1;
    const std::string text = sentence(r.comm);
    if (rank == victim) {
      ran_out = std::exchange(failed, false);
      of_victim = status;
    }
    if (status == TUTTI_OK) {
      if (!r.expected.empty()) {
        EXPECT_EQ(r.out, r.expected) << where;
      }
    } else {
      EXPECT_NE(status, TUTTI_INTERNAL) << where << ": " << text;
      EXPECT_NE(status, TUTTI_TIMEOUT) << where << ": " << text;
      EXPECT_NE(text, "") << where;
      all_well = false;
    }
    // Who was through with it before finds out now.
    tutti_barrier(r.comm);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), at_once)
        << where << ": " << status << ", " << text;
    tutti_request_free(&r.request);
    EXPECT_EQ(tutti_comm_free(r.part), TUTTI_OK) << where << tutti_last_error();
    EXPECT_EQ(tutti_comm_free(r.comm), TUTTI_OK) << where << tutti_last_error();
  });
  EXPECT_TRUE(ran_out || all_well) << scene.name << " fails with all the memory there is";
  return ran_out;
}

class NoMemory : public ::testing::TestWithParam<std::tuple<const char*, Scene>> {};

TEST_P(NoMemory, EndsTheCallEverywhereAtOnce) {
  const auto& [transport, scene] = GetParam();
  constexpr int64_t most = 5000, step = sanitized ? 3 : 1;
  int64_t fails_at = 0;
  while (fails_at < most && attempt(scene, transport, fails_at)) {
    if (HasFailure()) return;
    fails_at += step;
  }
  EXPECT_LT(fails_at, most);
  RecordProperty("allocations", int(fails_at));
}

// What a communicator that could not be made leaves behind must not be touched when the process
// ends.
TEST(NoMemoryAtTheEnd, OfTheProcessNothingIsTouchedThatIsGone) {
  const std::vector<Scene> all = scenes();
  const auto split = std::find_if(all.begin(), all.end(),
                                  [](const Scene& scene) { return scene.name == "split"; });
  ASSERT_NE(split, all.end());
  constexpr int more = 3, enough = 4;
  int status = 0;
  for (int64_t fails_at = 0; fails_at < 5000; ++fails_at) {
    EXPECT_EXIT(
        std::exit(attempt(*split, "shm", fails_at) ? more : enough),
        [&](int ended) {
          status = ended;
          return WIFEXITED(ended) && WEXITSTATUS(ended) >= more;
        },
        "")
        << "allocation " << fails_at;
    if (HasFailure() || WEXITSTATUS(status) == enough) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, NoMemory,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp"),
                                            ::testing::ValuesIn(scenes())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

}  // namespace
