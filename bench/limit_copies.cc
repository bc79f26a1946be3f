// The limit over shared memory of the collectives other than allreduce.
#include <algorithm>
#include <cstring>

#include "bench/collectives.h"
#include "bench/error.h"
#include "bench/limit.h"
#include "bench/limit_loops.h"

namespace tutti::bench {
namespace {

// The sum of some sources, written to some targets; if `running`, target k gets the sum of the
// first k + 1 sources.
struct Job {
  std::vector<const unsigned char*> from;
  std::vector<unsigned char*> to;
  size_t bytes;
  bool running = false;
};

// What one rank does in one call.
struct Part {
  const LimitOf& what;
  int rank, nranks;
  size_t bytes;  // of the longer buffer
  bool push;     // a rank writes its data to others instead of reading theirs
  std::vector<const unsigned char*> inputs;
  std::vector<unsigned char*> outputs;

  size_t block() const { return bytes / size_t(nranks); }
  // This rank's share of a vector that is divided evenly, in whole cache lines.
  size_t share(int of) const {
    const size_t lines = (bytes + line_bytes - 1) / line_bytes;
    return std::min(lines * size_t(of) / size_t(nranks) * line_bytes, bytes);
  }
  Job shared(int first_from, int last_from, int first_to, int last_to) const {
    const size_t begin = share(rank);
    Job job{{}, {}, share(rank + 1) - begin};
    for (int r = first_from; r <= last_from; ++r) job.from.push_back(inputs[size_t(r)] + begin);
    for (int r = first_to; r <= last_to; ++r) job.to.push_back(outputs[size_t(r)] + begin);
    return job;
  }
  // A block of `from`, at the `at`-th place of its input, to `to`'s `place`-th.
  Job copy(int from, int at, int to, int place) const {
    return {{inputs[size_t(from)] + size_t(at) * block()},
            {outputs[size_t(to)] + size_t(place) * block()},
            block()};
  }
  std::vector<Job> jobs() const;
};

std::vector<Job> Part::jobs() const {
  const std::string& name = what.collective;
  const int root = what.root, last = nranks - 1;
  std::vector<Job> jobs;
  // In place, a block that stays where it is needs no copy.
  auto moves = [&](int from, int to) { return !what.in_place || from != to; };
  if (name == "reduce") {
    if (push) {
      jobs.push_back(shared(0, last, root, root));
    } else if (rank == root) {
      jobs.push_back({inputs, {outputs[size_t(root)]}, bytes});
    }
  } else if (name == "broadcast") {
    Job job = shared(root, root, 0, last);
    if (!push) job = {{inputs[size_t(root)]}, {}, bytes};
    if (push)
      job.to.erase(job.to.begin() + root);
    else if (rank != root)
      job.to.push_back(outputs[size_t(rank)]);
    jobs.push_back(job);
  } else if (name == "scan") {
    jobs.push_back(shared(0, last, 0, last));
    jobs.back().running = true;
  } else if (name == "exscan") {
    jobs.push_back(shared(0, last - 1, 1, last));
    jobs.back().running = true;
  } else if (name == "reduce_scatter") {
    Job job{{}, {outputs[size_t(rank)]}, block()};
    for (const unsigned char* input : inputs) job.from.push_back(input + size_t(rank) * block());
    jobs.push_back(job);
  } else if (name == "gather") {
    if (moves(rank, root)) jobs.push_back(copy(rank, 0, root, rank));
  } else if (name == "scatter") {
    if (moves(root, rank)) jobs.push_back(copy(root, rank, rank, 0));
  } else if (name == "sendrecv") {
    jobs.push_back({{inputs[size_t((rank + last) % nranks)]}, {outputs[size_t(rank)]}, bytes});
  } else {
    const bool alltoall = name == "alltoall";
    for (int peer = 0; peer < nranks; ++peer) {
      if (!moves(peer, rank)) continue;
      if (push)
        jobs.push_back(copy(rank, alltoall ? peer : 0, peer, rank));
      else
        jobs.push_back(copy(peer, alltoall ? rank : 0, rank, peer));
    }
  }
  return jobs;
}

// What a rank gives and gets; elements of one byte.
Touched touched_parts(const SharedMap& map, const LimitOf& what, int rank, int nranks,
                      size_t bytes) {
  const Collective& collective = find_collective(what.collective);
  const Lengths lengths =
      collective.lengths({rank, nranks, what.root, collective.count_within(nranks, bytes)});
  return {map.input(rank), lengths.send, map.output(rank), lengths.recv};
}

const AnyFloat* floats(const unsigned char* bytes) {
  return reinterpret_cast<const AnyFloat*>(bytes);
}

class Writer {
 public:
  explicit Writer(bool streaming) : streaming_(streaming) {}
  void run(const std::vector<Job>& jobs) const {
    for (const Job& job : jobs) {
      if (job.from.size() == 1 && job.to.size() == 1)
        write(job.to[0], floats(job.from[0]), job.bytes / sizeof(float));
      else if (job.from.size() == 2 && job.to.size() == 1 && !streaming_)
        add_two_to(reinterpret_cast<float*>(job.to[0]), floats(job.from[0]), floats(job.from[1]),
                   job.bytes / sizeof(float));
      else if (!job.to.empty())
        combine(job);
    }
    if (streaming_) stream_fence();
  }

 private:
  void write(unsigned char* to, const AnyFloat* from, size_t n) const {
    if (streaming_)
      stream(reinterpret_cast<float*>(to), from, n);
    else
      std::memcpy(to, from, n * sizeof(float));
  }
  void combine(const Job& job) const {
    alignas(64) float sum[block_floats];
    for (size_t at = 0; at < job.bytes; at += sizeof sum) {
      const size_t n = std::min(sizeof sum, job.bytes - at) / sizeof(float);
      for (size_t k = 0; k < job.from.size(); ++k) {
        if (k == 0)
          std::memcpy(sum, job.from[k] + at, n * sizeof(float));
        else
          add_to(sum, floats(job.from[k] + at), n);
        if (job.running) write(job.to[k] + at, sum, n);
      }
      if (job.running) continue;
      for (unsigned char* to : job.to) write(to + at, sum, n);
    }
  }
  bool streaming_;
};

// Every rank does its part between two exchanges of flags.
class CopyLoop : public Limit {
 public:
  CopyLoop(const Rank& me, SharedMap& map, std::shared_ptr<uint64_t> epoch, const LimitOf& what,
           bool streaming, bool push)
      : map_(map),
        rank_(me.rank()),
        nranks_(me.nranks()),
        what_(what),
        push_(push),
        writer_(streaming),
        epoch_(epoch),
        flags_(map, rank_, nranks_, epoch.get()) {}

  void run(size_t bytes) override {
    if (bytes != bytes_) prepare(bytes);
    flags_.exchange();
    writer_.run(jobs_);
    flags_.exchange();
  }
  Touched touched(size_t bytes) override {
    return touched_parts(map_, what_, rank_, nranks_, bytes);
  }

 private:
  void prepare(size_t bytes) {
    bytes_ = bytes;
    Part part{what_, rank_, nranks_, bytes, push_, {}, {}};
    for (int rank = 0; rank < nranks_; ++rank) {
      part.inputs.push_back(map_.input(rank));
      part.outputs.push_back(map_.output(rank));
    }
    jobs_ = part.jobs();
  }

  SharedMap& map_;
  int rank_, nranks_;
  LimitOf what_;
  bool push_;
  Writer writer_;
  std::shared_ptr<uint64_t> epoch_;
  Flags flags_;
  size_t bytes_ = 0;
  std::vector<Job> jobs_;
};

// Small inputs: every rank publishes its own, waits for the others', and copies what it needs.
// Slots are used in turn, as for allreduce.
class CopyExchange : public Limit {
 public:
  CopyExchange(const Rank& me, SharedMap& map, std::shared_ptr<uint64_t> epoch, const LimitOf& what)
      : map_(map),
        rank_(me.rank()),
        nranks_(me.nranks()),
        what_(what),
        epoch_(epoch),
        flags_(map, rank_, nranks_, epoch.get()) {}

  void run(size_t bytes) override {
    if (bytes != bytes_) prepare(bytes);
    const auto turn = unsigned(flags_.epoch() + 1);
    std::memcpy(map_.slot(rank_, turn), map_.input(rank_), given_);
    flags_.announce();
    for (int rank = 0; rank < nranks_; ++rank)
      if (rank != rank_) flags_.await(rank);
    Writer(false).run(jobs_[turn % 2]);
  }
  Touched touched(size_t bytes) override {
    return touched_parts(map_, what_, rank_, nranks_, bytes);
  }

 private:
  void prepare(size_t bytes) {
    bytes_ = bytes;
    given_ = what_.collective == "allgather" ? bytes / size_t(nranks_) : bytes;
    for (unsigned turn = 0; turn < 2; ++turn) {
      Part part{what_, rank_, nranks_, bytes, false, {}, {}};
      for (int rank = 0; rank < nranks_; ++rank) {
        part.inputs.push_back(map_.slot(rank, turn));
        part.outputs.push_back(map_.output(rank));
      }
      jobs_[turn] = part.jobs();
    }
  }

  SharedMap& map_;
  int rank_, nranks_;
  LimitOf what_;
  std::shared_ptr<uint64_t> epoch_;
  Flags flags_;
  size_t bytes_ = 0, given_ = 0;
  std::vector<Job> jobs_[2];
};

}  // namespace

std::vector<LimitWay> copy_limits(const Rank& me, SharedMap& map, const LimitOf& what) {
  auto epoch = std::make_shared<uint64_t>(0);
  const size_t least = least_mapped_bytes(what.collective);
  const size_t streaming = std::max(least, streaming_from);
  auto loop = [&](bool streams, bool push) {
    return std::make_shared<CopyLoop>(me, map, epoch, what, streams, push);
  };
  std::vector<LimitWay> ways = {
      {"loop", loop(false, false), least, SIZE_MAX},
      {"streaming loop", loop(true, false), streaming, SIZE_MAX},
  };
  for (const char* name : {"reduce", "broadcast", "allgather", "alltoall"}) {
    if (what.collective != name) continue;
    ways.push_back({"pushing loop", loop(false, true), least, SIZE_MAX});
    ways.push_back({"pushing streaming loop", loop(true, true), streaming, SIZE_MAX});
  }
  if (least == 0)
    ways.push_back({"one exchange", std::make_shared<CopyExchange>(me, map, epoch, what), 0,
                    SharedMap::slot_bytes});
  return ways;
}

}  // namespace tutti::bench
