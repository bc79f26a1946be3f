// How many ranks hold each stage of a pipeline, and which of them computes which micro-batch. Pure.
#pragma once

#include <string>
#include <vector>

namespace tutti::train {

// Ranks that hold the same stage (its replicas) take micro-batches by turns. The order in which
// micro-batches enter is such that every replica gets shards that follow each other, as many as the
// others: the sum over them is a node of the canonical tree over all.
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
  // The first rank of the stage, and the one that computes the micro-batch which enters i-th.
  int lead(int stage) const { return first_[size_t(stage)]; }
  int rank(int stage, int i) const { return lead(stage) + i % width(stage); }
  // "2", or "2.0" and "2.1" where two ranks hold the stage.
  std::string name(int rank) const;

  // Which of `micro_batches` shards enters i-th. They are a multiple of the widest stage.
  int shard(int i, int micro_batches) const;
  // The replica's shards are those from part * n to (part + 1) * n, n = micro_batches / width.
  int part(int rank) const;

 private:
  std::vector<int> widths_, first_;  // first_ has one more: the number of ranks
};

}  // namespace tutti::train
