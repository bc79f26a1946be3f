// The operators: first() makes the state of a fold from an element, combine() one state from two,
// last() gives the result. `divides`: whether an average may divide the result.
#pragma once

#include <cstdint>

#include "lib/device/kernels/formats.h"

namespace tutti::device {

// Operators that are an operation of the format.
template <class F>
struct Arithmetic {
  using Format = F;
  using Element = typename F::Element;
  using State = typename F::Value;
  static constexpr bool divides = false;
  TUTTI_ON_BOTH static State first(const Element& x) { return F::widen(x); }
  TUTTI_ON_BOTH static Element last(const State& state) { return F::narrow(state); }
};

template <class F>
struct Sum : Arithmetic<F> {
  using State = typename F::Value;
  static constexpr bool divides = true;
  TUTTI_ON_BOTH static State combine(const State& a, const State& b) { return F::add(a, b); }
};
template <class F>
struct Prod : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(const State& a, const State& b) { return F::multiply(a, b); }
};
template <class F>
struct Min : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(const State& a, const State& b) { return F::least(a, b); }
};
template <class F>
struct Max : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(const State& a, const State& b) { return F::greatest(a, b); }
};

// The state is the truth value of an integer or a bool.
template <class F>
struct Logical {
  using Format = F;
  using Element = typename F::Element;
  using State = uint32_t;
  static constexpr bool divides = false;
  TUTTI_ON_BOTH static State first(Element x) { return x != 0 ? 1 : 0; }
  TUTTI_ON_BOTH static Element last(State state) { return static_cast<Element>(state); }
};
template <class F>
struct LogicalAnd : Logical<F> {
  TUTTI_ON_BOTH static uint32_t combine(uint32_t a, uint32_t b) { return a & b; }
};
template <class F>
struct LogicalOr : Logical<F> {
  TUTTI_ON_BOTH static uint32_t combine(uint32_t a, uint32_t b) { return a | b; }
};
template <class F>
struct LogicalXor : Logical<F> {
  TUTTI_ON_BOTH static uint32_t combine(uint32_t a, uint32_t b) { return a ^ b; }
};

template <class F>
struct BitAnd : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(State a, State b) { return static_cast<State>(a & b); }
};
template <class F>
struct BitOr : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(State a, State b) { return static_cast<State>(a | b); }
};
template <class F>
struct BitXor : Arithmetic<F> {
  using State = typename F::Value;
  TUTTI_ON_BOTH static State combine(State a, State b) { return static_cast<State>(a ^ b); }
};

// The state is the key and the index of the best so far; of equal keys the lowest index wins.
template <class F, bool least_wins>
struct Locate {
  using Format = F;
  using Element = typename F::Element;
  using Key = typename F::Key;
  using State = LocatedValue<Key, Key>;
  static constexpr bool divides = false;
  TUTTI_ON_BOTH static State first(const Element& x) {
    return {F::template key<least_wins>(x.value), x.index};
  }
  TUTTI_ON_BOTH static State combine(const State& best, const State& x) {
    const bool better = least_wins ? x.value < best.value : best.value < x.value;
    return better || (x.value == best.value && x.index < best.index) ? x : best;
  }
  TUTTI_ON_BOTH static Element last(const State& best) {
    return {F::template value<least_wins>(best.value), best.index};
  }
};
template <class F>
using Minloc = Locate<F, true>;
template <class F>
using Maxloc = Locate<F, false>;

}  // namespace tutti::device
