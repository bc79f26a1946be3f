// The loop that all kernels share: fold one vector or one block of vectors over all operands, in
// registers, then store. Compiled once per instruction set (hence the toggled guard).
//
// There is no scalar remainder. A count that is not a multiple of the vector ends with one vector
// that overlaps the one before it. In place, that would fold elements that are already results; so
// the overlapping vector is folded first, kept in a register, and stored last.
#if defined(TUTTI_REDUCE_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_LOOP_INL_H
#undef TUTTI_REDUCE_LOOP_INL_H
#else
#define TUTTI_REDUCE_LOOP_INL_H
#endif

#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "lib/reduce/ops-inl.h"
#include "lib/reduce/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A vector from memory of any alignment. A single lane goes through memcpy, because Highway reads
// it as an object of the type, which must be aligned.
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* from) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    T lane;
    std::memcpy(&lane, from, sizeof(T));
    return hn::Set(d, lane);
  } else {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
}

template <class D>
HWY_INLINE void store(hn::VFromD<D> v, D d, uint8_t* to) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    const T lane = hn::GetLane(v);
    std::memcpy(to, &lane, sizeof(T));
  } else {
    hn::StoreU(v, d, reinterpret_cast<T*>(to));
  }
}

// A non-temporal store to an address aligned to the vector; Highway has it for 16 bytes and more.
template <class D>
HWY_INLINE void stream(hn::VFromD<D> v, D d, uint8_t* to) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) < 16) {
    HWY_NAMESPACE::store(v, d, to);
  } else {
    hn::Stream(v, d, reinterpret_cast<hn::TFromD<D>*>(to));
  }
}

// A format: the type of elements in memory and the type that they are computed in; here both are T.
template <class T>
struct Plain {
  using Lane = T;
  static constexpr size_t kBytes = sizeof(T);
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* from) {
    return HWY_NAMESPACE::load(d, from);
  }
  template <class D>
  static HWY_INLINE void store(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::store(v, d, to);
  }
  template <class D>
  static HWY_INLINE void stream(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::stream(v, d, to);
  }
};

// The operands of one call: one, two or many.
struct OneOperand {
  const uint8_t* data;
  HWY_INLINE size_t size() const { return 1; }
  HWY_INLINE const uint8_t* operator[](size_t) const { return data; }
};
struct TwoOperands {
  const uint8_t* a;
  const uint8_t* b;
  HWY_INLINE size_t size() const { return 2; }
  HWY_INLINE const uint8_t* operator[](size_t k) const { return k == 0 ? a : b; }
};
struct ManyOperands {
  const void* const* operands;
  size_t n;
  HWY_INLINE size_t size() const { return n; }
  HWY_INLINE const uint8_t* operator[](size_t k) const {
    return static_cast<const uint8_t*>(operands[k]);
  }
};

// Where the results go: to one place or to two.
struct OnePlace {
  uint8_t* at;
};
struct TwoPlaces {
  uint8_t* at;
  uint8_t* other;
  Stores stores;
};

// Folds and stores vectors of one tag D of one format, operator and kind of operands.
template <class Format, class Op, class Operands, class Places, class D>
struct Folder {
  using V = hn::VFromD<D>;
  static constexpr size_t kLanes = hn::MaxLanes(D());

  Places out;
  const Operands& operands;
  Op op;

  HWY_INLINE V fold(size_t element) const {
    const D d;
    const size_t at = element * Format::kBytes;
    V state = op.first(d, Format::load(d, operands[0] + at));
    for (size_t k = 1; k < operands.size(); ++k) {
      state = op.next(d, state, Format::load(d, operands[k] + at));
    }
    return state;
  }

  template <Stores kStores = Stores::cached>
  HWY_INLINE void finish(V state, size_t element) const {
    const D d;
    const V result = op.last(d, state);
    if constexpr (kStores == Stores::stream_both) {
      Format::stream(result, d, out.at + element * Format::kBytes);
    } else {
      Format::store(result, d, out.at + element * Format::kBytes);
    }
    if constexpr (kStores != Stores::cached) {
      Format::stream(result, d, out.other + element * Format::kBytes);
    } else if constexpr (std::is_same_v<Places, TwoPlaces>) {
      Format::store(result, d, out.other + element * Format::kBytes);
    }
  }

  // Four vectors at a time: enough independent chains to hide the latency of an addition, and few
  // enough that states, masks and constants stay in 16 registers.
  static constexpr size_t kBlock = 4 * kLanes;
  template <Stores kStores = Stores::cached>
  HWY_INLINE void fold_and_finish_block(size_t element) const {
    const D d;
    constexpr size_t kStride = kLanes * Format::kBytes;
    const uint8_t* from = operands[0] + element * Format::kBytes;
    V s0 = op.first(d, Format::load(d, from));
    V s1 = op.first(d, Format::load(d, from + kStride));
    V s2 = op.first(d, Format::load(d, from + 2 * kStride));
    V s3 = op.first(d, Format::load(d, from + 3 * kStride));
    for (size_t k = 1; k < operands.size(); ++k) {
      from = operands[k] + element * Format::kBytes;
      s0 = op.next(d, s0, Format::load(d, from));
      s1 = op.next(d, s1, Format::load(d, from + kStride));
      s2 = op.next(d, s2, Format::load(d, from + 2 * kStride));
      s3 = op.next(d, s3, Format::load(d, from + 3 * kStride));
    }
    finish<kStores>(s0, element);
    finish<kStores>(s1, element + kLanes);
    finish<kStores>(s2, element + 2 * kLanes);
    finish<kStores>(s3, element + 3 * kLanes);
  }

  // Folds all whole blocks from `element` on with non-temporal stores; returns where they end.
  // There the places that are streamed to must be aligned to vectors.
  template <Stores kStores>
  HWY_INLINE size_t stream_blocks(size_t element, size_t elements) const {
    for (; element + kBlock <= elements; element += kBlock) {
      fold_and_finish_block<kStores>(element);
    }
    hwy::FlushStream();
    return element;
  }
};

// 1 <= elements < 2 * kLanes: one vector, or two that overlap, of the largest width that fits.
template <class Format, class Op, class Operands, class Places, size_t kLanes>
HWY_INLINE void run_small(const Places& out, const Operands& operands, Op op, size_t elements) {
  if constexpr (kLanes > 1) {
    if (elements < kLanes) {
      return run_small<Format, Op, Operands, Places, kLanes / 2>(out, operands, op, elements);
    }
  }
  using D = hn::Simd<typename Format::Lane, kLanes, 0>;
  const Folder<Format, Op, Operands, Places, D> folder{out, operands, op};
  const auto front = folder.fold(0);
  if (elements == kLanes) {
    folder.finish(front, 0);
    return;
  }
  const size_t back_at = elements - kLanes;
  const auto back = folder.fold(back_at);
  folder.finish(front, 0);
  folder.finish(back, back_at);
}

// How many elements to skip so that stores to `out` are aligned to whole vectors; 0 if they already
// are, or if no element lies on such a boundary.
template <size_t kBytes, size_t kVectorBytes>
HWY_INLINE size_t elements_to_alignment(const uint8_t* out) {
  const size_t past = reinterpret_cast<uintptr_t>(out) % kVectorBytes;
  return past % kBytes == 0 && past != 0 ? (kVectorBytes - past) / kBytes : 0;
}

template <class Format, class Op, class Operands, class Places>
HWY_INLINE void run(const Places& out, const Operands& operands, Op op, size_t elements) {
  using D = hn::ScalableTag<typename Format::Lane>;
  using F = Folder<Format, Op, Operands, Places, D>;
  constexpr size_t kLanes = F::kLanes;
  if constexpr (kLanes > 1) {
    if (elements < kLanes) {
      if (elements == 0) return;
      return run_small<Format, Op, Operands, Places, kLanes / 2>(out, operands, op, elements);
    }
  }
  const F folder{out, operands, op};
  // Vectors that cross a cache line cost twice, so a long run starts with one unaligned vector that
  // ends beyond the first boundary; aligned ones follow from there. The first overlaps the next and
  // is stored last too.
  constexpr size_t kLong = 16 * kLanes;
  size_t i = 0;
  auto head = hn::Zero(D());
  if (elements >= kLong) {
    i = elements_to_alignment<Format::kBytes, kLanes * Format::kBytes>(out.at);
    if (i != 0) head = folder.fold(0);
  }
  const bool has_head = i != 0;
  const bool has_tail = (elements - i) % kLanes != 0;
  const size_t tail_at = elements - kLanes;
  auto tail = hn::Zero(D());
  if (has_tail) tail = folder.fold(tail_at);

  if constexpr (std::is_same_v<Places, TwoPlaces>) {
    constexpr size_t kVectorBytes = kLanes * Format::kBytes;
    const auto places = reinterpret_cast<uintptr_t>(out.at + i * Format::kBytes) |
                        reinterpret_cast<uintptr_t>(out.other + i * Format::kBytes);
    if (out.stores != Stores::cached && places % kVectorBytes == 0) {
      i = out.stores == Stores::stream_both
              ? folder.template stream_blocks<Stores::stream_both>(i, elements)
              : folder.template stream_blocks<Stores::stream_other>(i, elements);
    }
  }
  for (; i + F::kBlock <= elements; i += F::kBlock) folder.fold_and_finish_block(i);
  for (; i + kLanes <= elements; i += kLanes) folder.finish(folder.fold(i), i);

  if (has_tail) folder.finish(tail, tail_at);
  if (has_head) folder.finish(head, 0);
}

template <class Format, class Op>
void reduce2(void* out, const void* a, const void* b, size_t elements) {
  const TwoOperands operands{static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b)};
  run<Format>(OnePlace{static_cast<uint8_t*>(out)}, operands, Op(), elements);
}

template <class Format, class Op>
void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements,
                   Stores stores) {
  const TwoOperands operands{static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b)};
  run<Format>(TwoPlaces{static_cast<uint8_t*>(out), static_cast<uint8_t*>(other), stores}, operands,
              Op(), elements);
}

template <class Format, class Op>
void reduce_many(void* out, const void* const* operands, size_t n, size_t elements) {
  if (n == 2) return reduce2<Format, Op>(out, operands[0], operands[1], elements);
  if (n == 1) {
    if (out != operands[0] && elements != 0) {
      std::memcpy(out, operands[0], elements * Format::kBytes);
    }
    return;
  }
  run<Format>(OnePlace{static_cast<uint8_t*>(out)}, ManyOperands{operands, n}, Op(), elements);
}

// Defined in canonical-inl.h.
template <class Format, class Op>
void reduce_canonical(void* out, const void* const* operands, size_t n, size_t elements);

// Defined in exact-inl.h.
template <class Format, class Op>
ReduceFn exact_of();

template <class Format, class Op>
Kernels kernels_of(DivideFn divide = nullptr, ScaleFn scale = nullptr) {
  return {
      reduce_many<Format, Op>,      reduce2<Format, Op>,   reduce2_twice<Format, Op>, divide, scale,
      reduce_canonical<Format, Op>, exact_of<Format, Op>()};
}

template <class Format>
void scale_lanes(void* out, const void* in, const void* scalar, size_t elements) {
  using Lane = typename Format::Lane;
  const hn::Simd<Lane, 1, 0> one;
  const Lane by = hn::GetLane(Format::load(one, static_cast<const uint8_t*>(scalar)));
  run<Format>(OnePlace{static_cast<uint8_t*>(out)}, OneOperand{static_cast<const uint8_t*>(in)},
              Scaled<Lane>{by}, elements);
}

template <class Format>
void divide_floats(void* data, size_t elements, uint32_t divisor) {
  uint8_t* bytes = static_cast<uint8_t*>(data);
  run<Format>(OnePlace{bytes}, OneOperand{bytes}, Quotient{divisor}, elements);
}

// The operators that floats have.
template <class Format>
Kernels float_kernels(tutti_op op) {
  switch (op) {
    case TUTTI_SUM:
      return kernels_of<Format, Sum>(nullptr, scale_lanes<Format>);
    case TUTTI_AVG:
      return kernels_of<Format, Sum>(divide_floats<Format>);
    case TUTTI_PROD:
      return kernels_of<Format, Prod>();
    case TUTTI_MIN:
      return kernels_of<Format, Min>();
    case TUTTI_MAX:
      return kernels_of<Format, Max>();
    default:
      return {};
  }
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_LOOP_INL_H
