// The limits of a GPU, measured by rank 0, and by ranks 0 and 1.
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "bench/clock.h"
#include "bench/gpu_subjects.h"
#include "bench/stats.h"

namespace tutti::bench {
namespace {

constexpr size_t copied_bytes = size_t(256) << 20;  // several times the cache of any GPU
constexpr size_t least_copied_bytes = size_t(1) << 20;
constexpr double copy_batch_us = 2000;  // long enough that enqueuing and waiting are negligible
constexpr int copy_batches = 7;

double copy_GBs(const Gpu& gpu, const GpuMemory& to, const GpuMemory& from, size_t bytes) {
  size_t copies = 1;
  const auto batch_us = [&] {
    const auto begin = Clock::now();
    for (size_t i = 0; i < copies; ++i)
      require(gpu.driver().copy_on(gpu.stream(), to.pointer(), from.pointer(), bytes));
    gpu.wait();
    return us_since(begin);
  };
  batch_us();  // the first batch touches the memory
  while (batch_us() < copy_batch_us && copies < Batches::most_calls) copies *= 2;
  std::vector<double> rates;
  rates.reserve(copy_batches);
  for (int i = 0; i < copy_batches; ++i)
    rates.push_back(2 * double(bytes) * double(copies) / batch_us() / 1e3);
  return summarise(rates).median;
}

// The copy rate, with vectors as large as the memory allows.
double largest_copy_GBs(const Gpu& gpu) {
  for (size_t bytes = copied_bytes;; bytes /= 2) {
    try {
      const GpuMemory to(gpu, bytes), from(gpu, bytes);
      return copy_GBs(gpu, to, from, bytes);
    } catch (const Failure&) {
      if (bytes <= least_copied_bytes) throw;
    }
  }
}

// Two ranks that pass a flag back and forth.
class Players {
 public:
  Players(const Rank& me, const Gpu& gpu)
      : me_(me), gpu_(gpu), board_(gpu, shared_bytes), common_(std::make_unique<device::Common>()) {
    device::Driver& driver = gpu.driver();
    require(driver.fill(board_.address(), 0, sizeof(device::Board)));
    require(driver.kernel("tutti_empty", &kernel_));
    if (!me.threads()) require(driver.export_memory(board_.address(), &exported_));
    Card card{exported_, int(getpid()), board_.address()};
    std::vector<Card> cards(static_cast<size_t>(me.nranks()));
    me.gather(&card, cards.data(), sizeof card);
    if (!plays()) return;
    other_ = cards[size_t(other())];
    address_ = other_.address;
    if (!me.threads()) require(driver.import_memory(other_.memory, other_.pid, &address_));
    common_->own = reinterpret_cast<device::Board*>(board_.address());
    common_->boards[other()] = reinterpret_cast<device::Board*>(address_);
    common_->self = uint32_t(me.rank());
  }
  // No rank frees memory that the other still has mapped.
  ~Players() {
    if (!me_.threads() && plays()) gpu_.driver().close_import(other_.memory, address_);
    try {
      me_.barrier();
    } catch (const Failure&) {
      return;  // the other rank is gone
    }
    if (!me_.threads()) gpu_.driver().close_export(exported_);
  }
  Players(const Players&) = delete;
  Players& operator=(const Players&) = delete;

  bool plays() const { return me_.rank() < 2; }

  void play(int trips) {
    for (int trip = 0; trip < trips; ++trip) {
      if (me_.first()) tell(trip > 0, true);
      wait();
      if (!me_.first()) tell(true, true);
    }
    if (me_.first()) tell(true, false);
    gpu_.wait();
  }

 private:
  // Large enough for an allocation of its own: shorter ones share an allocation, which is exported
  // as a whole.
  static constexpr size_t shared_bytes = size_t(4) << 20;

  struct Card {
    device::Exported memory;
    int pid;
    device::Address address;
  };

  int other() const { return 1 - me_.rank(); }

  void tell(bool clear, bool set) {
    const uint32_t there = uint32_t(1) << other();
    common_->clear[0] = {device::ready_1, clear ? there : 0};
    common_->set[0] = {device::ready_1, set ? there : 0};
    require(gpu_.driver().launch(kernel_, 1, 32, common_.get(), sizeof *common_, gpu_.stream()));
  }

  void wait() {
    const device::Address flag = board_.address() + offsetof(device::Board, flags) +
                                 (device::ready_1 * device::most_ranks + device::Address(other())) *
                                     sizeof(device::FlagWord);
    require(gpu_.driver().wait_flags(gpu_.stream(), {&flag, 1}));
  }

  const Rank& me_;
  const Gpu& gpu_;
  GpuMemory board_;
  std::unique_ptr<device::Common> common_;
  device::Kernel kernel_ = nullptr;
  device::Exported exported_;
  Card other_{};
  device::Address address_ = 0;
};

constexpr int trips = 16;
constexpr int plays = 9;

}  // namespace

double measure_copy_GBs(const Rank& me, const Gpu& gpu) {
  me.barrier();
  const double rate = me.first() ? largest_copy_GBs(gpu) : 0;
  return me.from_first(rate);
}

double measure_hand_over_us(const Rank& me, const Gpu& gpu) {
  if (me.nranks() < 2) return 0;
  Players players(me, gpu);
  std::vector<double> us;
  for (int i = 0; i <= plays; ++i) {
    me.barrier();
    const auto begin = Clock::now();
    if (players.plays()) players.play(trips);
    if (i > 0) us.push_back(us_since(begin) / (2 * trips));
  }
  return me.from_first(summarise(us).median);
}

}  // namespace tutti::bench
