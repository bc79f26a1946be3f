// How a gradient travels: whole, rounded to bf16, only its largest values, or to each worker the
// part of the sum that it updates.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/sync/buckets.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// `Real`: the element type of the gradients.
template <class Real>
class Wire {
 public:
  virtual ~Wire() = default;
  // Collective: starts to sum the gradient of a bucket over the ranks.
  virtual request begin(Calls& calls, size_t bucket, std::span<Real> gradient) = 0;
  // Whether such a call can overlap with computation; if not, begin() blocks until it is done.
  virtual bool nonblocking() const { return true; }
  // When the call has ended: the sum of part(), with the same bits on all ranks that get it.
  virtual std::span<Real> sum(const Device&, size_t /*bucket*/, std::span<Real> gradient) {
    return gradient;
  }

  // Whether each rank gets a part of the sum, and updates the parameters of that part alone.
  virtual bool sharded() const { return false; }
  virtual Range part(const Bucket& bucket) const { return range_of(bucket); }
  // Collective, if sharded(): starts to send each rank's part of the parameters to the others.
  virtual request gather(Calls&, size_t /*bucket*/, std::span<Real> /*parameters*/) { return {}; }

  // The step is left out, which the sums of all its buckets have decided: what is kept of gradients
  // is as it was before it.
  virtual void leave_out() {}

  // What one bucket sends, by formula.
  virtual Volume formula(const communicator& comm, size_t count) const = 0;
  virtual std::vector<StateVector> state() { return {}; }
  virtual std::string about() const = 0;
};

// For float64 there are only the encodings that send all values in full.
template <class Real>
std::unique_ptr<Wire<Real>> make_wire(const Worker& worker, const std::vector<Bucket>& buckets);

// How collectives are called with these options; valid as long as `options` is.
tutti_call_config call_config(const Options& options);

// What the busiest rank sends in an allreduce with these options, by the formula of its algorithm;
// no_formula where ways that send different amounts are tried.
Volume formula_of(const Options& options, const communicator& comm, size_t count,
                  tutti_dtype dtype);

// The same of a call of ranks that divide layers, whose allreduces are called like that.
Volume formula_of(const GroupCall& call, const tutti_call_config& config, const communicator& comm);

}  // namespace tutti::train
