// The fold by a fixed tree over the operands instead of from left to right: the `canonical` level.
// Compiled once per instruction set (hence the toggled guard).
//
// The tree over n operands, q the largest power of two <= n and e = n - q: the first 2e operands
// are combined in adjacent pairs, which leaves q survivors, and these by an aligned binary tree;
// the lower operand is always the left one. Every node is rounded to the type in memory, so each
// has the bits of reduce2(), and a schedule that combines in this order, hop by hop, gives the same
// bits.
//
// Where the operator is bitwise associative (integers, minimum and maximum, logic) the tree gives
// the bits of the left fold, so the left fold runs.
#if defined(TUTTI_REDUCE_CANONICAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_CANONICAL_INL_H
#undef TUTTI_REDUCE_CANONICAL_INL_H
#else
#define TUTTI_REDUCE_CANONICAL_INL_H
#endif

#include "hwy/highway.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// Operators whose result depends on how the operands are bracketed, if lanes are floats.
template <class Op>
inline constexpr bool kRounds = false;
template <>
inline constexpr bool kRounds<Sum> = true;
template <>
inline constexpr bool kRounds<Prod> = true;

// The operands as the q leaves of the aligned tree, some of which are pairs.
struct TreeOperands {
  const void* const* operands;
  size_t pairs;   // e
  size_t leaves;  // q

  TreeOperands(const void* const* all, size_t n) : operands(all), pairs(0), leaves(1) {
    while (leaves * 2 <= n) leaves *= 2;
    pairs = n - leaves;
  }
  HWY_INLINE const uint8_t* operator[](size_t k) const {
    return static_cast<const uint8_t*>(operands[k]);
  }
};

// The folder for loop-inl.h. Finished subtrees that wait for their right sibling are in an array,
// like the digits of a binary counter: place k holds a subtree of 2^k leaves.
template <class Format, class Op, class Places, class D>
struct Folder<Format, Op, TreeOperands, Places, D> : Folder<Format, Op, ManyOperands, Places, D> {
  using Base = Folder<Format, Op, ManyOperands, Places, D>;
  using V = typename Base::V;
  static constexpr size_t kLanes = Base::kLanes;
  static constexpr size_t kBlock = Base::kBlock;
  static constexpr size_t kStride = kLanes * Format::kBytes;
  static constexpr size_t kMostLevels = 8 * sizeof(size_t);

  const TreeOperands& tree;

  HWY_INLINE Folder(Places out, const TreeOperands& operands, Op op)
      : Base{out, kNone, op}, tree(operands) {}

  // The root, which finish() rounds.
  HWY_INLINE V root(V left, V right) const { return this->op.next(D(), left, right); }

  HWY_INLINE V node(V left, V right) const {
    const D d;
    const V result = root(left, right);
    if constexpr (requires { Format::round(d, result); }) {
      return Format::round(d, result);
    } else {
      return result;  // already in the type in memory
    }
  }

  HWY_INLINE V leaf(size_t index, size_t at) const {
    const D d;
    if (index >= tree.pairs) {
      return this->op.first(d, Format::load(d, tree[index + tree.pairs] + at));
    }
    return node(this->op.first(d, Format::load(d, tree[2 * index] + at)),
                Format::load(d, tree[2 * index + 1] + at));
  }

  V fold(size_t element) const {
    const size_t at = element * Format::kBytes;
    return tree.leaves <= 4 ? fold_few(at) : fold_many(at);
  }

  // Two or four leaves, as straight code.
  HWY_INLINE V fold_few(size_t at) const {
    if (tree.leaves == 2) return root(leaf(0, at), leaf(1, at));
    return root(node(leaf(0, at), leaf(1, at)), node(leaf(2, at), leaf(3, at)));
  }

  HWY_INLINE V four_leaves(size_t index, size_t at) const {
    return node(node(leaf(index, at), leaf(index + 1, at)),
                node(leaf(index + 2, at), leaf(index + 3, at)));
  }

  V fold_many(size_t at) const {
    V waiting[kMostLevels];
    V done = four_leaves(0, at);
    size_t level = 0;
    for (size_t index = 1; index < tree.leaves / 4; ++index) {
      waiting[level] = done;
      done = four_leaves(4 * index, at);
      for (level = 0; (index >> level & 1) != 0; ++level) done = node(waiting[level], done);
    }
    return done;
  }

  // Four vectors, as in the left fold: each operand's pointer is loaded once for all four.
  struct Block {
    V v0, v1, v2, v3;
  };

  HWY_INLINE Block nodes(const Block& left, const Block& right) const {
    return {node(left.v0, right.v0), node(left.v1, right.v1), node(left.v2, right.v2),
            node(left.v3, right.v3)};
  }

  HWY_INLINE Block load_block(const uint8_t* from) const {
    const D d;
    return {this->op.first(d, Format::load(d, from)),
            this->op.first(d, Format::load(d, from + kStride)),
            this->op.first(d, Format::load(d, from + 2 * kStride)),
            this->op.first(d, Format::load(d, from + 3 * kStride))};
  }

  // The subtree of 2^kLevels leaves from `index` on, in registers if there are enough.
  template <int kLevels>
  HWY_INLINE Block subtree(size_t index, size_t at) const {
    if constexpr (kLevels == 0) {
      if (index >= tree.pairs) return load_block(tree[index + tree.pairs] + at);
      return nodes(load_block(tree[2 * index] + at), load_block(tree[2 * index + 1] + at));
    } else {
      const Block left = subtree<kLevels - 1>(index, at);
      return nodes(left, subtree<kLevels - 1>(index + (size_t{1} << (kLevels - 1)), at));
    }
  }

  HWY_INLINE Block fold_block(size_t at) const {
    if (tree.leaves == 2) return subtree<1>(0, at);
    if (tree.leaves == 4) return subtree<2>(0, at);
    Block waiting[kMostLevels];
    Block done = subtree<3>(0, at);
    size_t level = 0;
    for (size_t index = 1; index < tree.leaves / 8; ++index) {
      waiting[level] = done;
      done = subtree<3>(8 * index, at);
      for (level = 0; (index >> level & 1) != 0; ++level) done = nodes(waiting[level], done);
    }
    return done;
  }

  // Where every node is rounded, the four trees of a block in registers would be too much code for
  // a compiler, and the rounding hides the latency of loading the operands' pointers.
  static constexpr bool kRoundsNodes = requires(D d, V v) { Format::round(d, v); };

  HWY_INLINE void fold_and_finish_block(size_t element) const {
    if constexpr (kRoundsNodes) {
      if (Format::kBytes > 1 && tree.leaves == 4 && tree.pairs == 0) {
        return fold_and_finish_four(element);
      }
      for (size_t i = element; i < element + kBlock; i += kLanes) this->finish(fold(i), i);
    } else {
      fold_and_finish_trees(element);
    }
  }

  // Four operands, with their pointers in registers: the compiler must assume that stores to the
  // result change the array.
  HWY_INLINE void fold_and_finish_four(size_t element) const {
    const D d;
    const uint8_t *const a = tree[0], *const b = tree[1], *const c = tree[2], *const e = tree[3];
    for (size_t i = element; i < element + kBlock; i += kLanes) {
      const size_t at = i * Format::kBytes;
      const auto load = [&](const uint8_t* from)
                            HWY_ATTR { return this->op.first(d, Format::load(d, from + at)); };
      this->finish(root(node(load(a), load(b)), node(load(c), load(e))), i);
    }
  }

  HWY_INLINE void fold_and_finish_trees(size_t element) const {
    const Block block = fold_block(element * Format::kBytes);
    this->finish(block.v0, element);
    this->finish(block.v1, element + kLanes);
    this->finish(block.v2, element + 2 * kLanes);
    this->finish(block.v3, element + 3 * kLanes);
  }

 private:
  static constexpr ManyOperands kNone{nullptr, 0};
};

template <class Format, class Op>
void reduce_canonical(void* out, const void* const* operands, size_t n, size_t elements) {
  if constexpr (kRounds<Op> && hwy::IsFloat<typename Format::Lane>()) {
    if (n > 2) {
      const TreeOperands tree(operands, n);
      return run<Format>(OnePlace{static_cast<uint8_t*>(out)}, tree, Op(), elements);
    }
  }
  reduce_many<Format, Op>(out, operands, n, elements);
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_CANONICAL_INL_H
