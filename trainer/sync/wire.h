// How a gradient is encoded in messages: whole, rounded to bf16, or only its largest values.
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
  // Collective: starts to sum the gradient of a bucket over the ranks. When the call has ended and
  // finish() has returned, `gradient` is the sum, with the same bits on all ranks.
  virtual request begin(const Way& way, size_t bucket, std::span<Real> gradient) = 0;
  virtual void finish(const Device& device, size_t bucket, std::span<Real> gradient) {
    (void)device;
    (void)bucket;
    (void)gradient;
  }
  // Whether such a call can overlap with computation; if not, begin() blocks until it is done.
  virtual bool beside() const { return true; }
  // What one such call sends, by formula.
  virtual Volume formula(const communicator& comm, size_t count) const = 0;
  virtual std::vector<StateVector> state() { return {}; }
  virtual std::string about() const = 0;
};

// For float64 there is only the encoding that sends all values in full.
template <class Real>
std::unique_ptr<Wire<Real>> make_wire(const Options& options, const std::vector<Bucket>& buckets);
template <>
std::unique_ptr<Wire<float>> make_wire(const Options& options, const std::vector<Bucket>& buckets);
template <>
std::unique_ptr<Wire<double>> make_wire(const Options& options, const std::vector<Bucket>& buckets);

// How collectives are called with these options; valid as long as `options` is.
tutti_call_config call_config(const Options& options);

// What the busiest rank sends in an allreduce with these options, by the formula of its algorithm.
Volume formula_of(const Options& options, const communicator& comm, size_t count,
                  tutti_dtype dtype);

// The same of a call of ranks that divide layers, whose allreduces are called like that.
Volume formula_of(const GroupCall& call, const tutti_call_config& config, const communicator& comm);

}  // namespace tutti::train
