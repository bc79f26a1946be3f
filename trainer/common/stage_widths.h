// How many ranks hold each stage of a pipeline, and which of them computes which micro-batch. Pure.
#pragma once

#include <string>
#include <vector>

namespace tutti::train {

// The numbers of a list, 1,2,1 for example. Throws BadInput, "OPTION LIST: 'WORD' otherwise",
// unless each fits.
std::vector<int> numbers_of(const char* option, const std::string& list, const char* otherwise,
                            bool (*fits)(long long number));

// Ranks that hold the same stage (its replicas) take micro-batches in turn. Micro-batches enter in
// an order that gives every replica equally many consecutive shards, so the sum over a replica's
// shards is a node of the canonical tree over all shards.
class StageWidths {
 public:
  // Numbers of ranks, powers of two. The ranks of stage 0 come first.
  explicit StageWidths(std::vector<int> widths);
  // As in --stage-widths; one rank each where that is empty. Throws BadInput.
  static StageWidths parsed(const std::string& text, int stages);

  int stages() const { return int(widths_.size()); }
  int ranks() const { return first_.back(); }
  int width(int stage) const { return widths_[size_t(stage)]; }
  int widest() const;

  int stage(int rank) const;
  int replica(int rank) const { return rank - first_[size_t(stage(rank))]; }
  // The first rank of the stage, and the rank of it that computes the micro-batch entering i-th.
  int lead(int stage) const { return first_[size_t(stage)]; }
  int rank(int stage, int i) const { return lead(stage) + i % width(stage); }
  // "2", or "2.0" and "2.1" where two ranks hold the stage.
  std::string name(int rank) const;

  // The number of the shard that enters i-th. `micro_batches`, the number of shards, is a multiple
  // of the widest stage's width.
  int shard(int i, int micro_batches) const;
  // The replica's shards are [part * n, (part + 1) * n), n = micro_batches / width.
  int part(int rank) const;

 private:
  std::vector<int> widths_, first_;  // first_ has one more entry: the number of ranks
};

}  // namespace tutti::train
