#include "bench/builds/turns.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>
#include <span>

#include "bench/clock.h"
#include "bench/error.h"
#include "bench/hop.h"
#include "bench/sizes.h"

namespace tutti::bench::builds {
namespace {

constexpr size_t least_turns = 5;
constexpr size_t most_calls = 4096;  // a batch
constexpr int calibrations = 4;      // a single delayed one would make all batches too short
constexpr size_t most_samples = size_t(1) << 20;

// What rank 0 passes to the program that started it.
struct Record {
  size_t samples;
  Sample sample[most_samples];
};

// A build with the vectors that it is called with.
struct Side {
  const Library* library;
  Buffers buffers;
};

class Turns {
 public:
  Turns(Member& me, Side base, Side next, const std::vector<Cell>& cells, const Method& method,
        uint32_t start)
      : me_(me),
        base_(base),
        next_(next),
        cells_(cells),
        method_(method),
        calls_(cells.size(), 1),
        start_(start),
        random_(start) {}

  // Both builds must produce the same bits: sums of small whole numbers are exact.
  void check() {
    for (const Cell& cell : cells_) {
      const auto expected = result_of(base_, cell), found = result_of(next_, cell);
      const bool wrong = me_.max(expected != found) > 0;
      if (wrong)
        throw Failure(std::string("base and new differ in the result of ") + cell.kind->name +
                      " of " + format_bytes(cell.bytes));
    }
  }

  // Both builds make as many calls per batch as base needs.
  void calibrate() {
    for (size_t i = 0; i < cells_.size(); ++i) {
      while (calls_[i] < most_calls && least_us(i) < method_.least_batch_us) calls_[i] *= 2;
    }
  }

  void run(Record& record) {
    const auto begin = Clock::now();
    const size_t turns = method_.turns;
    const double most_us = method_.seconds * 1e6 / double(method_.starts);
    double hop = hop_ns();
    for (size_t turn = 0;; ++turn) {
      if (turns ? turn == turns : turn >= least_turns && me_.max(us_since(begin)) > most_us) return;
      for (size_t i : order()) {
        Sample sample{uint32_t(i), start_, hop, 0, 0, 0};
        measure_cell(i, random_() % 2 == 1, sample);
        sample.hop_after_ns = hop = hop_ns();
        if (me_.first() && record.samples < most_samples) record.sample[record.samples++] = sample;
      }
    }
  }

 private:
  const Side& side(bool next) const { return next ? next_ : base_; }

  void fill_input(const Side& side, const Cell& cell, size_t seed) const {
    const size_t n = cell.kind->lengths(cell.count, me_.rank(), me_.nranks()).input;
    float* to = cell.kind->in_recv ? side.buffers.recv : side.buffers.send;
    for (size_t i = 0; i < n; ++i) to[i] = float((i + seed) % 64);
  }

  Touched touched(const Side& side, const Cell& cell) const {
    const auto lengths = cell.kind->lengths(cell.count, me_.rank(), me_.nranks());
    float* const input = cell.kind->in_recv ? side.buffers.recv : side.buffers.send;
    return {reinterpret_cast<unsigned char*>(input), lengths.input * sizeof(float),
            reinterpret_cast<const unsigned char*>(side.buffers.recv),
            lengths.output * sizeof(float)};
  }

  void call(const Side& side, const Cell& cell) const {
    side.library->require(cell.kind->call(*side.library, side.buffers, cell.count),
                          cell.kind->name);
  }

  std::vector<float> result_of(const Side& side, const Cell& cell) const {
    const std::span<float> output(side.buffers.recv, cell.bytes / sizeof(float));
    std::fill(output.begin(), output.end(), -1.0f);
    fill_input(side, cell, size_t(me_.rank()));
    call(side, cell);
    return {output.begin(), output.end()};
  }

  double still_us(const Side& side, const Cell& cell, size_t calls) {
    const auto begin = Clock::now();
    for (size_t i = 0; i < calls; ++i) call(side, cell);
    return us_since(begin);
  }

  double live_us(const Side& side, const Cell& cell, size_t calls) {
    double us = 0;
    for (size_t i = 0; i < calls; ++i) {
      us += live_call_us(
          touched(side, cell), [this] { me_.barrier(); }, [&] { call(side, cell); });
    }
    return us;
  }

  // The time of one call in a batch, after one call that brings this build's code and data back
  // into the caches.
  double batch_us(bool next, size_t i) {
    call(side(next), cells_[i]);
    me_.barrier();
    const double us = method_.data == Data::live ? live_us(side(next), cells_[i], calls_[i])
                                                 : still_us(side(next), cells_[i], calls_[i]);
    return me_.max(us) / double(calls_[i]);
  }

  // The least time of a whole batch of base. The other build makes as many calls: in its first ones
  // a build tries ways.
  double least_us(size_t i) {
    double least = std::numeric_limits<double>::infinity();
    for (int n = 0; n < calibrations; ++n) {
      least = std::min(least, batch_us(false, i));
      batch_us(true, i);
    }
    return least * double(calls_[i]);
  }

  // Base, new, new, base, or the other way round, so that a linear drift affects both equally.
  void measure_cell(size_t i, bool next_first, Sample& sample) {
    const double outer = batch_us(next_first, i), inner = batch_us(!next_first, i);
    const double inner_again = batch_us(!next_first, i), outer_again = batch_us(next_first, i);
    sample.base_us = sample.new_us = (outer + outer_again) / 2;
    (next_first ? sample.base_us : sample.new_us) = (inner + inner_again) / 2;
  }

  std::vector<size_t> order() {
    std::vector<size_t> order(cells_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  double hop_ns() {
    double ns = 0;
    me_.alone([&] { ns = measure_hop_ns(); });
    return ns;
  }

  Member& me_;
  Side base_, next_;
  const std::vector<Cell>& cells_;
  const Method& method_;
  std::vector<size_t> calls_;  // calls per batch, by cell
  uint32_t start_;
  std::mt19937 random_;  // the same on all ranks, different in each start
};

// Vectors of `bytes` on the heap, touched by their owner.
struct Heap {
  explicit Heap(size_t elements) : send(elements, 0.0f), recv(elements, 0.0f) {}
  std::vector<float> send, recv;
};

Side make_side(const Library& library, Heap& heap, bool symmetric) {
  if (!symmetric) return {&library, {heap.send.data(), heap.recv.data()}};
  const size_t bytes = heap.send.size() * sizeof(float);
  auto* send = reinterpret_cast<float*>(library.allocate(bytes));
  auto* recv = reinterpret_cast<float*>(library.allocate(bytes));
  std::fill_n(send, heap.send.size(), 0.0f);
  std::fill_n(recv, heap.recv.size(), 0.0f);
  return {&library, {send, recv}};
}

}  // namespace

std::vector<Sample> measure(const LibraryCopy& base, const LibraryCopy& next,
                            const std::vector<Cell>& cells, const Method& method) {
  auto* record = static_cast<Record*>(map_shared(sizeof(Record)));
  for (uint32_t start = 0; start < method.starts; ++start) {
    run_team(method.nranks, [&](Member& me) {
      // The build that is loaded first gets other addresses, so the builds take turns at it.
      const bool swapped = start % 2 == 1;
      const Library one(swapped ? next : base, me), other(swapped ? base : next, me);
      Heap heap(longest(cells) / sizeof(float));
      const Side first = make_side(one, heap, method.symmetric);
      const Side second = make_side(other, heap, method.symmetric);
      Turns turns(me, swapped ? second : first, swapped ? first : second, cells, method, start);
      turns.check();
      turns.calibrate();
      turns.run(*record);
    });
  }
  return {record->sample, record->sample + record->samples};
}

}  // namespace tutti::bench::builds
