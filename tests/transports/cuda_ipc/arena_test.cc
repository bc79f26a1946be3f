// The memory that ranks share on GPUs, among threads and among processes.
#include "transports/arena.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "lib/base/clock.h"
#include "tests/device/gpu.h"
#include "tests/device/process_exchange.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/thread_exchange.h"

namespace tutti::cuda_ipc {

using device::Address;
namespace {

using device::Board;
using device::Driver;
using device::Place;
using testing::at;
using testing::Gpu;
using testing::in_child;
using testing::make_mapped;
using testing::on_processes;

constexpr Arena::Sizes small_sizes{4096, 64 << 10};
constexpr uint64_t setup_ms = 20'000;

uint64_t soon() { return deadline_after_ms(setup_ms); }

void meet(Exchange& exchange) {
  std::vector<std::string> all;
  ASSERT_TRUE(exchange.allgather("", soon(), &all).ok());
}

// So many allocations since there were `before`; only the fake driver counts them.
void expect_freed(uint64_t count, uint64_t before) {
  if (driver_is_fake()) {
    EXPECT_EQ(fake_cuda_counts_now().frees - before, count);
  }
}

std::unique_ptr<Arena> open_arena(Exchange& exchange, int device = 0) {
  Driver* driver = nullptr;
  const Status got = Driver::get(&driver);
  EXPECT_TRUE(got.ok()) << got.text();
  std::unique_ptr<Arena> arena;
  std::string why;
  const Status opened = Arena::open(*driver, exchange, device, small_sizes, soon(), &arena, &why);
  EXPECT_TRUE(opened.ok()) << opened.text();
  EXPECT_NE(arena, nullptr) << why;
  EXPECT_EQ(why, "");
  return arena;
}

// All ranks as threads of a child.
void on_threads(int nranks, const std::function<void(Exchange&)>& body,
                const std::map<std::string, std::string>& environment = {}) {
  in_child(environment, [&] {
    const auto group = std::make_shared<testing::ThreadExchangeGroup>(nranks);
    testing::on_threads(nranks, [&](int rank) {
      testing::ThreadExchange exchange(group, rank);
      body(exchange);
    });
  });
}

// Both.
void on_ranks(int nranks, const std::function<void(Exchange&)>& body) {
  on_threads(nranks, body);
  on_processes(nranks, body);
}

// Where a kernel of this rank would find a place of `rank`.
Address resolve(const Gpu& gpu, const Arena& arena, uint32_t rank, const Place& place) {
  Address base = 0;
  const Address entry = arena.board(arena.rank()) + offsetof(Board, regions) +
                        (rank * device::most_regions + place.region) * sizeof(Address);
  EXPECT_TRUE(gpu->copy(&base, at(entry), sizeof(base)).ok());
  return base + place.offset;
}

TEST(Arena, AllRanksReachAllParts) {
  for (int nranks = 1; nranks <= 4; ++nranks) {
    on_ranks(nranks, [nranks](Exchange& exchange) {
      const Gpu gpu;
      const auto arena = open_arena(exchange);
      ASSERT_EQ(arena->nranks(), uint32_t(nranks));
      const auto self = uint32_t(exchange.rank());
      EXPECT_EQ(arena->rank(), self);
      EXPECT_EQ(arena->staging(self) % 512, 0u);
      EXPECT_GE(arena->result_bytes(), small_sizes.staging_bytes / nranks + 512);
      const Place staged = arena->staging_place(8);
      gpu.set_word(arena->staging(self) + 8, 100 + self);
      gpu.set_word(arena->results(self) + arena->result_bytes() - 4, 200 + self);
      for (uint32_t rank = 0; rank < arena->nranks(); ++rank) {
        gpu.set_word(arena->slot(rank, self, 0), 300 + self);
        gpu.set_word(arena->slot(rank, self, 1) + small_sizes.slot_bytes - 4, 400 + self);
      }
      meet(exchange);
      for (uint32_t rank = 0; rank < arena->nranks(); ++rank) {
        EXPECT_EQ(gpu.word(arena->staging(rank) + 8), 100 + rank);
        EXPECT_EQ(gpu.word(resolve(gpu, *arena, rank, staged)), 100 + rank);
        EXPECT_EQ(gpu.word(arena->results(rank) + arena->result_bytes() - 4), 200 + rank);
        EXPECT_EQ(gpu.word(arena->slot(self, rank, 0)), 300 + rank);
        EXPECT_EQ(gpu.word(arena->slot(self, rank, 1) + small_sizes.slot_bytes - 4), 400 + rank);
      }
      meet(exchange);
    });
  }
}

TEST(Arena, SaysWhoSharesWhat) {
  on_threads(2, [](Exchange& exchange) {
    const auto arena = open_arena(exchange);
    EXPECT_TRUE(arena->one_process());
    EXPECT_TRUE(arena->shares_context());
  });
  on_threads(2,
             [](Exchange& exchange) {
               const auto arena = open_arena(exchange, exchange.rank());
               EXPECT_TRUE(arena->one_process());
               EXPECT_FALSE(arena->shares_context());
               EXPECT_EQ(arena->device(), exchange.rank());
             },
             {{"FAKE_CUDA_DEVICES", "2"}});
  on_processes(2, [](Exchange& exchange) {
    const auto arena = open_arena(exchange);
    EXPECT_FALSE(arena->one_process());
    EXPECT_FALSE(arena->shares_context());
  });
}

TEST(Arena, ABoardBeginsWithWhatMayBeOverwritten) {
  on_ranks(2, [](Exchange& exchange) {
    const Gpu gpu;
    const auto arena = open_arena(exchange);
    const Address board = arena->board(arena->rank());
    EXPECT_EQ(gpu.word(board + offsetof(Board, over)), 0u);
    EXPECT_EQ(gpu.word(board + offsetof(Board, call)), 0u);
    for (uint32_t kind = 0; kind < device::flag_kinds; ++kind) {
      const auto flag = device::Flag(kind);
      EXPECT_EQ(gpu.word(arena->flag(flag, 1)), device::begins_set(flag) ? 1u : 0u);
    }
    EXPECT_EQ(arena->report().begun, 0u);
    EXPECT_EQ(arena->report_address(), reinterpret_cast<Address>(&arena->report()));
    meet(exchange);
  });
}

TEST(Arena, WhatIsAddedIsReachedByAll) {
  on_ranks(3, [](Exchange& exchange) {
    const Gpu gpu;
    const auto arena = open_arena(exchange);
    const auto self = uint32_t(exchange.rank());
    const size_t bytes = 4096 * (self + 1);
    const Address outer = gpu.memory(3 * bytes);
    Address made = 0, same = 0;
    ASSERT_TRUE(arena->add(exchange, true, 0, bytes, soon(), &made).ok());
    ASSERT_TRUE(arena->add(exchange, false, outer + 64, bytes, soon(), &same).ok());
    EXPECT_EQ(same, outer + 64);
    Place in_made, in_outer, none;
    ASSERT_TRUE(arena->find(made + bytes - 16, 16, &in_made));
    ASSERT_TRUE(arena->find(outer + 64, bytes, &in_outer));
    if (!arena->one_process()) {
      EXPECT_FALSE(arena->find(made + bytes - 16, 17, &none));
      EXPECT_FALSE(arena->find(outer, 64, &none));
      EXPECT_NE(in_made.region, in_outer.region);
    }
    gpu.set_word(made + bytes - 16, 10 + self);
    gpu.set_word(outer + 64, 20 + self);
    // Ranks tell each other places, as entries do.
    const Place places[] = {in_made, in_outer};
    std::vector<std::string> all;
    ASSERT_TRUE(
        exchange.allgather({reinterpret_cast<const char*>(places), sizeof(places)}, soon(), &all)
            .ok());
    for (uint32_t rank = 0; rank < arena->nranks(); ++rank) {
      Place theirs[2];
      std::memcpy(theirs, all[rank].data(), sizeof(theirs));
      EXPECT_EQ(gpu.word(resolve(gpu, *arena, rank, theirs[0])), 10 + rank);
      EXPECT_EQ(gpu.word(resolve(gpu, *arena, rank, theirs[1])), 20 + rank);
    }
    meet(exchange);
    EXPECT_FALSE(arena->remove(outer));
    EXPECT_TRUE(arena->remove(outer + 64));
    EXPECT_FALSE(arena->remove(outer + 64));
    EXPECT_TRUE(arena->remove(made));
    if (!arena->one_process()) {
      EXPECT_FALSE(arena->find(made, 1, &none));
    }
    meet(exchange);
    gpu->release(outer);
    EXPECT_EQ(fake_cuda_counts_now().freed_while_imported, 0u);
  });
}

TEST(Arena, MemoryThatIsMappedIsAddedByItsDescriptor) {
  on_processes(2, [](Exchange& exchange) {
    constexpr size_t bytes = size_t(2) << 20;
    const Gpu gpu;
    const auto arena = open_arena(exchange);
    const Address memory = make_mapped(bytes);
    Address same = 0;
    const Status added = arena->add(exchange, false, memory, bytes, soon(), &same);
    ASSERT_TRUE(added.ok()) << added.text();
    Place place;
    ASSERT_TRUE(arena->find(memory + 4, 4, &place));
    gpu.set_word(memory + 4, 7 + arena->rank());
    meet(exchange);
    EXPECT_EQ(gpu.word(resolve(gpu, *arena, 1 - arena->rank(), place)), 8 - arena->rank());
    meet(exchange);
    EXPECT_TRUE(arena->remove(memory));
  });
}

// Rank 0 adds this; all fail, rank 1 with rank 0's sentence.
void expect_refused(Exchange& exchange, Arena& arena, Address memory, size_t bytes,
                    const std::string& text) {
  const Gpu gpu;
  Address mine = gpu.memory(4096), out = 0;
  const bool first = exchange.rank() == 0;
  const Status status =
      arena.add(exchange, false, first ? memory : mine, first ? bytes : 4096, soon(), &out);
  EXPECT_EQ(status.code(), TUTTI_INVALID);
  EXPECT_EQ(status.text(), first ? text : "rank 0: " + text);
  gpu->release(mine);
}

TEST(Arena, MemoryThatCannotBeAddedIsRefusedOnAllRanks) {
  on_threads(2,
             [](Exchange& exchange) {
               const Gpu gpu;
               const auto arena = open_arena(exchange);
               uint32_t variable = 0;
               expect_refused(exchange, *arena, reinterpret_cast<Address>(&variable), 4,
                              "the memory does not lie on a GPU");
               const Address memory = gpu.memory(4096);
               expect_refused(exchange, *arena, memory + 96, 4096,
                              "4096 bytes go beyond the end of the allocation, 4000 bytes away");
               Address elsewhere = 0;
               {
                 const Gpu other(1);
                 elsewhere = other.memory(4096);
               }
               expect_refused(exchange, *arena, elsewhere, 4096,
                              "the memory lies on GPU 1, the communicator's is GPU 0");
               CUdeviceptr managed = 0;
               ASSERT_EQ(testing::cuda_function<decltype(cuMemAllocManaged)>("cuMemAllocManaged")(
                             &managed, 4096, CU_MEM_ATTACH_GLOBAL),
                         CUDA_SUCCESS);
               expect_refused(exchange, *arena, managed, 4096,
                              "managed memory cannot be shared with other ranks");
             },
             {{"FAKE_CUDA_DEVICES", "2"}});
}

TEST(Arena, RegionsComeFreeAgain) {
  on_processes(2, [](Exchange& exchange) {
    const Gpu gpu;
    const auto arena = open_arena(exchange);
    const uint64_t before = fake_cuda_counts_now().frees;
    for (uint32_t turn = 0; turn < 2 * device::most_regions; ++turn) {
      Address memory = 0;
      const Status added = arena->add(exchange, true, 0, 4096, soon(), &memory);
      ASSERT_TRUE(added.ok()) << added.text();
      ASSERT_TRUE(arena->remove(memory));
    }
    meet(exchange);
    Address last = 0;
    ASSERT_TRUE(arena->add(exchange, true, 0, 4096, soon(), &last).ok());  // frees what it can
    expect_freed(2 * device::most_regions, before);
    EXPECT_EQ(fake_cuda_counts_now().freed_while_imported, 0u);
    meet(exchange);
  });
}

TEST(Arena, ThereIsALimitToRegions) {
  on_threads(2, [](Exchange& exchange) {
    const auto arena = open_arena(exchange);
    Address memory = 0;
    Status added;
    uint32_t count = 0;
    while (added.ok() && count < 100) {
      added = arena->add(exchange, true, 0, 512, soon(), &memory);
      if (added.ok()) ++count;
    }
    EXPECT_EQ(count, 61u);
    EXPECT_EQ(added.text(), "a communicator shares at most 61 pieces of memory of GPUs");
  });
}

TEST(Arena, MemoryIsFreedOnlyWhenNobodyUsesIt) {
  on_processes(2, [](Exchange& exchange) {
    const Gpu gpu;
    auto arena = open_arena(exchange);
    const uint64_t before = fake_cuda_counts_now().frees;
    meet(exchange);
    if (exchange.rank() == 0) {
      arena.reset();
      // One of pinned memory, none of the GPU's: rank 1 still maps it.
      expect_freed(1u, before);
    }
    meet(exchange);
    if (exchange.rank() == 1) {
      gpu.set_word(arena->staging(0), 1);
      arena.reset();
      expect_freed(2u, before);
    }
    meet(exchange);
    arena = open_arena(exchange);
    meet(exchange);
    arena.reset();
    EXPECT_EQ(fake_cuda_counts_now().freed_while_imported, 0u);
    meet(exchange);
  });
}

TEST(Arena, OutlivesADeadRank) {
  on_processes(3,
               [](Exchange& exchange) {
                 const Gpu gpu;
                 auto arena = open_arena(exchange);
                 Address memory = 0;
                 ASSERT_TRUE(arena->add(exchange, true, 0, 4096, soon(), &memory).ok());
                 if (exchange.rank() == 1) raise(SIGKILL);
                 gpu.set_word(arena->staging(1), 42);
                 EXPECT_EQ(gpu.word(arena->staging(1)), 42u);
                 EXPECT_TRUE(arena->let_go().ok());
                 arena.reset();
               },
               {1});
}

TEST(Arena, LetsGoWhatWaits) {
  on_ranks(2, [](Exchange& exchange) {
    const Gpu gpu;
    const auto arena = open_arena(exchange);
    const device::Stream stream = gpu.stream();
    const Address flags[] = {arena->flag(device::ready_1, 0), arena->flag(device::full_1, 1)};
    ASSERT_TRUE(gpu->wait_flags(stream, flags).ok());
    EXPECT_FALSE(gpu.drained(stream, 30));
    const uint64_t waited = fake_cuda_counts_now().synchronisations;
    ASSERT_TRUE(arena->let_go().ok());
    ASSERT_TRUE(arena->let_go().ok());
    if (!arena->one_process()) {
      EXPECT_EQ(fake_cuda_counts_now().synchronisations, waited);
    }
    EXPECT_TRUE(gpu.drained(stream));
    EXPECT_NE(gpu.word(arena->board(arena->rank()) + offsetof(Board, over)), 0u);
    meet(exchange);
  });
}

// Opening gives no arena, and all ranks the same reason.
void expect_no_arena(Exchange& exchange, int device, const std::string& reason) {
  Driver* driver = nullptr;
  ASSERT_TRUE(Driver::get(&driver).ok());
  std::unique_ptr<Arena> arena;
  std::string why;
  const Status opened = Arena::open(*driver, exchange, device, small_sizes, soon(), &arena, &why);
  EXPECT_TRUE(opened.ok()) << opened.text();
  EXPECT_EQ(arena, nullptr);
  const std::string shown = why.starts_with("rank ") ? why.substr(why.find(": ") + 2) : why;
  EXPECT_EQ(shown, reason);
}

TEST(Arena, GpusThatDoNotReachEachOtherShareNothing) {
  on_threads(2,
             [](Exchange& exchange) {
               expect_no_arena(exchange, exchange.rank(),
                               "the GPUs of ranks 0 and 1 cannot reach each other");
             },
             {{"FAKE_CUDA_DEVICES", "2"}, {"FAKE_CUDA_PEER", "0"}});
}

TEST(Arena, ThereIsALimitToRanks) {
  in_child([] {
    const auto group = std::make_shared<testing::ThreadExchangeGroup>(33);
    testing::ThreadExchange exchange(group, 0);
    expect_no_arena(exchange, 0, "memory of GPUs is shared by at most 32 ranks");
  });
}

TEST(Arena, AFailureOfOneRankIsEverybodys) {
  for (const char* const fails : {"cuMemAlloc:1", "cuIpcOpenMemHandle:1"}) {
    on_processes(2, [fails](Exchange& exchange) {
      if (exchange.rank() == 1) setenv("FAKE_CUDA_FAIL", fails, 1);
      Driver* driver = nullptr;
      ASSERT_TRUE(Driver::get(&driver).ok());
      std::unique_ptr<Arena> arena;
      std::string why;
      const Status opened = Arena::open(*driver, exchange, 0, small_sizes, soon(), &arena, &why);
      EXPECT_FALSE(opened.ok());
      EXPECT_EQ(arena, nullptr);
      const std::string name = std::string(fails).substr(0, std::string(fails).find(':'));
      const std::string begin = (exchange.rank() == 0 ? "rank 1: " : "") + name + " of ";
      EXPECT_TRUE(opened.text().starts_with(begin)) << opened.text();
      meet(exchange);
      EXPECT_EQ(fake_cuda_counts_now().freed_while_imported, 0u);
    });
  }
}

}  // namespace
}  // namespace tutti::cuda_ipc
