#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "bench/limit.h"
#include "bench/limit_loops.h"

namespace tutti::bench {
namespace {

// Elements are added as float32 whatever the type: the traffic is what counts. A line at a time,
// since x and y may be a and b. Streaming: by non-temporal stores; lines are whole then.
TUTTI_CLONES void add_two(const float* a, const float* b, float* x, float* y, size_t n,
                          bool streaming) {
  constexpr size_t line = line_bytes / sizeof(float);
  for (; n >= line; a += line, b += line, x += line, y += line, n -= line) {
    alignas(line_bytes) float sum[line];
    for (size_t i = 0; i < line; ++i) sum[i] = a[i] + b[i];
    for (float* const to : {x, y}) {
      if (streaming)
        stream(to, sum, line);
      else
        std::memcpy(to, sum, sizeof sum);
    }
  }
  for (size_t i = 0; i < n; ++i) x[i] = y[i] = a[i] + b[i];
}

// What all ways know: where the vectors of each rank lie.
class OfVectors : public Limit {
 public:
  OfVectors(const Rank& me, SharedMap& map, bool in_place)
      : map_(map), rank_(me.rank()), nranks_(me.nranks()), in_place_(in_place) {}
  Touched touched(size_t bytes) override {
    return {map_.input(rank_), bytes, output(rank_), bytes};
  }

 protected:
  unsigned char* output(int rank) const { return in_place_ ? map_.input(rank) : map_.output(rank); }

  SharedMap& map_;
  int rank_;
  int nranks_;
  bool in_place_;
};

// What exchanges flags, whose epoch all of them share.
class WithFlags : public OfVectors {
 public:
  WithFlags(const Rank& me, SharedMap& map, bool in_place, std::shared_ptr<uint64_t> epoch)
      : OfVectors(me, map, in_place),
        epoch_(std::move(epoch)),
        flags_(map, rank_, nranks_, epoch_.get()) {}

 protected:
  // Where the share of that rank begins.
  size_t share(int rank, size_t bytes) const {
    const size_t lines = (bytes + line_bytes - 1) / line_bytes;
    return std::min(lines * size_t(rank) / size_t(nranks_) * line_bytes, bytes);
  }

  std::shared_ptr<uint64_t> epoch_;
  Flags flags_;
};

// How a sum gets into the outputs of others: by plain stores, by non-temporal ones, or from the own
// output by the string instruction, which overwrites lines without fetching them.
enum class Stores : uint8_t { plain, streaming, string };

void copy_string(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

class MappedLoop : public WithFlags {
 public:
  MappedLoop(const Rank& me, SharedMap& map, bool in_place, std::shared_ptr<uint64_t> epoch,
             Stores stores)
      : WithFlags(me, map, in_place, std::move(epoch)), stores_(stores) {}

  static constexpr size_t copied_floats = 1024;  // at a time: the string instruction starts slowly

  void run(size_t bytes) override {
    flags_.exchange();
    const size_t begin = share(rank_, bytes), end = share(rank_ + 1, bytes);
    if (begin < end) reduce(begin, (end - begin) / sizeof(float));
    flags_.exchange();
  }

 private:
  const float* in(int rank, size_t at) const {
    return reinterpret_cast<const float*>(map_.input(rank) + at);
  }
  float* out(int rank, size_t at) const { return reinterpret_cast<float*>(output(rank) + at); }

  void reduce(size_t at, size_t floats) {
    if (stores_ == Stores::string) return reduce_and_copy(at, floats);
    if (nranks_ == 2) {
      add_two(in(0, at), in(1, at), out(0, at), out(1, at), floats, stores_ == Stores::streaming);
      return fence();
    }
    alignas(64) float block[block_floats];
    for (size_t done = 0; done < floats; done += block_floats) {
      const size_t n = std::min(block_floats, floats - done);
      const size_t here = at + done * sizeof(float);
      std::memcpy(block, in(0, here), n * sizeof(float));
      for (int rank = 1; rank < nranks_; ++rank) add_to(block, in(rank, here), n);
      for (int rank = 0; rank < nranks_; ++rank) {
        if (stores_ == Stores::streaming)
          stream(out(rank, here), block, n);
        else
          std::memcpy(out(rank, here), block, n * sizeof(float));
      }
    }
    fence();
  }
  void reduce_and_copy(size_t at, size_t floats) {
    for (size_t done = 0; done < floats; done += copied_floats) {
      const size_t n = std::min(copied_floats, floats - done);
      const size_t here = at + done * sizeof(float);
      bool begun = in_place_;  // with the own input
      for (int rank = 0; rank < nranks_; ++rank) {
        if (rank == rank_) continue;
        if (begun)
          add_to(out(rank_, here), in(rank, here), n);
        else
          add_two_to(out(rank_, here), in(rank_, here), in(rank, here), n);
        begun = true;
      }
      for (int rank = 0; rank < nranks_; ++rank)
        if (rank != rank_) copy_string(out(rank, here), out(rank_, here), n * sizeof(float));
    }
  }
  void fence() const {
    if (stores_ == Stores::streaming) stream_fence();
  }

  Stores stores_;
};

// out[i] = the sum over ranks of from(rank)[i].
template <class From>
void add_all(float* out, size_t floats, int nranks, From from) {
  if (nranks == 1) return void(std::memcpy(out, from(0), floats * sizeof(float)));
  for (size_t done = 0; done < floats; done += block_floats) {
    const size_t n = std::min(block_floats, floats - done);
    add_two_to(out + done, from(0) + done, from(1) + done, n);
    for (int rank = 2; rank < nranks; ++rank) add_to(out + done, from(rank) + done, n);
  }
}

// Each rank reads the whole of every input, from its share on, and writes its own output alone,
// between two exchanges of flags: more is read, but nothing is written for others.
class OneHop : public WithFlags {
 public:
  using WithFlags::WithFlags;

  void run(size_t bytes) override {
    flags_.exchange();
    const size_t own = share(rank_, bytes);
    add(own, bytes - own);
    add(0, own);
    flags_.exchange();
  }

 private:
  void add(size_t at, size_t bytes) {
    add_all(reinterpret_cast<float*>(output(rank_) + at), bytes / sizeof(float), nranks_,
            [&](int rank) { return reinterpret_cast<const float*>(map_.input(rank) + at); });
  }
};

// Publish the input in a slot, exchange flags once, add all slots. Slots are used in turn: a rank
// in call k+2 has seen the flags of all ranks for call k+1, so call k's slots are free.
class OneExchange : public WithFlags {
 public:
  using WithFlags::WithFlags;

  void run(size_t bytes) override {
    const auto turn = unsigned(flags_.epoch() + 1);
    std::memcpy(map_.slot(rank_, turn), map_.input(rank_), bytes);
    flags_.announce();
    for (int rank = 0; rank < nranks_; ++rank)
      if (rank != rank_) flags_.await(rank);
    add_all(reinterpret_cast<float*>(output(rank_)), bytes / sizeof(float), nranks_,
            [&](int rank) { return reinterpret_cast<const float*>(map_.slot(rank, turn)); });
  }
};

// The same with the input beside the flag: one cache line is transferred.
class OneLine : public OfVectors {
 public:
  static constexpr size_t most_bytes = sizeof(SharedMap::Cell::payload);
  OneLine(const Rank& me, SharedMap& map, bool in_place)
      : OfVectors(me, map, in_place), patience_(me.nranks()) {}

  void run(size_t bytes) override {
    ++epoch_;
    publish(&cell(rank_), epoch_, map_.input(rank_));
    float sum[most_bytes / sizeof(float)] = {};
    for (int rank = 0; rank < nranks_; ++rank) {
      SharedMap::Cell& from = cell(rank);
      if (rank != rank_) patience_.await(std::atomic_ref(from.flag), epoch_);
      float values[std::size(sum)];
      std::memcpy(values, from.payload, most_bytes);
      for (size_t i = 0; i < std::size(sum); ++i) sum[i] += values[i];
    }
    std::memcpy(output(rank_), sum, bytes);
  }

 private:
  SharedMap::Cell& cell(int rank) const { return map_.line(rank).cells[epoch_ % 2]; }
  uint64_t epoch_ = 0;
  Patience patience_;
};

}  // namespace

std::vector<LimitWay> allreduce_limits(const Rank& me, SharedMap& map, bool in_place) {
  auto epoch = std::make_shared<uint64_t>(0);
  const auto loop = [&](Stores stores) {
    return std::make_shared<MappedLoop>(me, map, in_place, epoch, stores);
  };
  std::vector<LimitWay> ways{
      {"loop", loop(Stores::plain), 0, SIZE_MAX},
      {"streaming loop", loop(Stores::streaming), streaming_from, SIZE_MAX},
      {"one exchange", std::make_shared<OneExchange>(me, map, in_place, epoch), 0,
       SharedMap::slot_bytes},
      {"one line", std::make_shared<OneLine>(me, map, in_place), 0, OneLine::most_bytes},
  };
  if (me.nranks() > 1)
    ways.push_back({"copying loop", loop(Stores::string), MappedLoop::copied_floats * sizeof(float),
                    SIZE_MAX});
  // In place others still read what this would write.
  if (!in_place)
    ways.push_back({"one hop", std::make_shared<OneHop>(me, map, false, epoch), 0, SIZE_MAX});
  return ways;
}

}  // namespace tutti::bench
