// The loop over elements of two lanes that an operator needs together: complex numbers, and values
// with their index. Lanes are deinterleaved into two vectors, folded, and interleaved again.
// Compiled once per instruction set (hence the toggled guard).
#if defined(TUTTI_REDUCE_PAIR_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_PAIR_LOOP_INL_H
#undef TUTTI_REDUCE_PAIR_LOOP_INL_H
#else
#define TUTTI_REDUCE_PAIR_LOOP_INL_H
#endif

#include <cstring>

#include "hwy/highway.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// The first lanes of some elements, and the second ones. An operator has first(d, x) and
// next(d, state, x), which make states of elements, and last(d, state), which gives the result.
template <class D>
struct PairOf {
  hn::VFromD<D> first, second;
};

template <class D>
HWY_INLINE PairOf<D> load_pairs(D d, const uint8_t* from) {
  using Lane = hn::TFromD<D>;
  PairOf<D> pairs;
  if constexpr (hn::MaxLanes(D()) == 1) {
    pairs.first = load(d, from);
    pairs.second = load(d, from + sizeof(Lane));
  } else {
    hn::LoadInterleaved2(d, reinterpret_cast<const Lane*>(from), pairs.first, pairs.second);
  }
  return pairs;
}

template <class D>
HWY_INLINE void store_pairs(const PairOf<D>& pairs, D d, uint8_t* to) {
  using Lane = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    store(pairs.first, d, to);
    store(pairs.second, d, to + sizeof(Lane));
  } else {
    hn::StoreInterleaved2(pairs.first, pairs.second, d, reinterpret_cast<Lane*>(to));
  }
}

// `put(pairs, element, elements)` stores the results of `elements` elements, at most a vector.
template <class Lane, class Op, class Operands, class Put>
HWY_INLINE void run_pairs(const Operands& operands, Op op, size_t elements, const Put& put) {
  const hn::ScalableTag<Lane> d;
  constexpr size_t kLanes = hn::MaxLanes(d), kBytes = 2 * sizeof(Lane);
  size_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) {
    auto state = op.first(d, load_pairs(d, operands[0] + i * kBytes));
    for (size_t k = 1; k < operands.size(); ++k) {
      state = op.next(d, state, load_pairs(d, operands[k] + i * kBytes));
    }
    put(op.last(d, state), i, kLanes);
  }
  if (i == elements) return;
  // The rest goes through a buffer from which a whole vector can be loaded.
  uint8_t block[kLanes * kBytes] = {};
  const auto rest_of = [&](size_t k) {
    std::memcpy(block, operands[k] + i * kBytes, (elements - i) * kBytes);
    return load_pairs(d, block);
  };
  auto state = op.first(d, rest_of(0));
  for (size_t k = 1; k < operands.size(); ++k) state = op.next(d, state, rest_of(k));
  put(op.last(d, state), i, elements - i);
}

template <class Lane>
HWY_INLINE void put_pairs(const PairOf<hn::ScalableTag<Lane>>& pairs, uint8_t* to,
                          size_t elements) {
  const hn::ScalableTag<Lane> d;
  constexpr size_t kLanes = hn::MaxLanes(d), kBytes = 2 * sizeof(Lane);
  if (elements == kLanes) return store_pairs(pairs, d, to);
  uint8_t block[kLanes * kBytes];
  store_pairs(pairs, d, block);
  std::memcpy(to, block, elements * kBytes);
}

template <class Lane, class Op, class Operands>
HWY_INLINE void fold_pairs(void* out, const Operands& operands, size_t elements, Op op) {
  uint8_t* const to = static_cast<uint8_t*>(out);
  run_pairs<Lane>(operands, op, elements, [=](const auto& pairs, size_t at, size_t n) HWY_ATTR {
    put_pairs<Lane>(pairs, to + at * 2 * sizeof(Lane), n);
  });
}

template <class Lane, class Op>
void reduce2_pairs(void* out, const void* a, const void* b, size_t elements) {
  const TwoOperands operands{static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b)};
  fold_pairs<Lane>(out, operands, elements, Op());
}

template <class Lane, class Op>
void reduce2_pairs_twice(void* out, void* other, const void* a, const void* b, size_t elements,
                         Stores) {
  const TwoOperands operands{static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b)};
  uint8_t* const to = static_cast<uint8_t*>(out);
  uint8_t* const too = static_cast<uint8_t*>(other);
  run_pairs<Lane>(operands, Op(), elements, [=](const auto& pairs, size_t at, size_t n) HWY_ATTR {
    put_pairs<Lane>(pairs, to + at * 2 * sizeof(Lane), n);
    put_pairs<Lane>(pairs, too + at * 2 * sizeof(Lane), n);
  });
}

template <class Lane, class Op>
void reduce_pairs(void* out, const void* const* operands, size_t n, size_t elements) {
  if (n == 1) {
    if (out != operands[0] && elements != 0) {
      std::memcpy(out, operands[0], elements * 2 * sizeof(Lane));
    }
    return;
  }
  fold_pairs<Lane>(out, ManyOperands{operands, n}, elements, Op());
}

// By the tree of the `canonical` level (canonical-inl.h), a block at a time and node by node.
template <class Lane, class Op>
void reduce_pairs_canonical(void* out, const void* const* operands, size_t n, size_t elements) {
  if (n <= 2) return reduce_pairs<Lane, Op>(out, operands, n, elements);
  constexpr size_t kBytes = 2 * sizeof(Lane), kBlock = 32, kMostLevels = 32;
  size_t leaves = 1;
  while (leaves * 2 <= n) leaves *= 2;
  const size_t pairs = n - leaves;
  uint8_t waiting[kMostLevels][kBlock * kBytes], done[kBlock * kBytes];
  for (size_t at = 0; at < elements; at += kBlock) {
    const size_t count = elements - at < kBlock ? elements - at : kBlock;
    const auto operand = [&](size_t k) {
      return static_cast<const uint8_t*>(operands[k]) + at * kBytes;
    };
    size_t level = 0;
    for (size_t index = 0; index < leaves; ++index) {
      if (index != 0) std::memcpy(waiting[level], done, count * kBytes);
      if (index < pairs) {
        reduce2_pairs<Lane, Op>(done, operand(2 * index), operand(2 * index + 1), count);
      } else {
        std::memcpy(done, operand(index + pairs), count * kBytes);
      }
      for (level = 0; (index >> level & 1) != 0; ++level) {
        reduce2_pairs<Lane, Op>(done, waiting[level], done, count);
      }
    }
    std::memcpy(static_cast<uint8_t*>(out) + at * kBytes, done, count * kBytes);
  }
}

// `kAssociative`: bitwise, so that the left fold is right for every level.
template <class Lane, class Op, bool kAssociative>
Kernels pair_kernels_of() {
  Kernels kernels{reduce_pairs<Lane, Op>, reduce2_pairs<Lane, Op>, reduce2_pairs_twice<Lane, Op>};
  if constexpr (kAssociative) {
    kernels.reduce_canonical = kernels.reduce_exact = reduce_pairs<Lane, Op>;
  } else {
    kernels.reduce_canonical = reduce_pairs_canonical<Lane, Op>;
  }
  return kernels;
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_PAIR_LOOP_INL_H
