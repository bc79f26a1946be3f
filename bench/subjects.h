// What `tutti-bench allreduce` measures: one algorithm on one communicator, over one vector or over
// the buckets of a model; and the limit over the same bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "bench/buffers.h"
#include "bench/error.h"
#include "bench/limit.h"
#include "bench/measure.h"
#include "bench/oracle.h"
#include "bench/rank.h"

namespace tutti::bench {

// A vector within the buffers.
struct Span {
  size_t offset;  // bytes
  size_t count;   // elements
};

struct CallShape {
  tutti_dtype dtype;
  tutti_op op;
  bool in_place;
  bool unfused;
};

class AllreduceSubject : public Subject {
 public:
  AllreduceSubject(tutti_comm comm, std::string algorithm, const CallShape& shape,
                   std::vector<Span> spans, const Buffers& buffers)
      : comm_(comm),
        algorithm_(std::move(algorithm)),
        shape_(shape),
        spans_(std::move(spans)),
        buffers_(buffers),
        element_(tutti_dtype_size(shape.dtype)) {
    config_.algorithm = algorithm_.c_str();
    if (shape.unfused) config_.flags |= TUTTI_CALL_UNFUSED;
  }
  AllreduceSubject(const AllreduceSubject&) = delete;
  AllreduceSubject& operator=(const AllreduceSubject&) = delete;

  void run(size_t calls) override {
    if (spans_.size() == 1) {
      for (size_t i = 0; i < calls; ++i) call(spans_.front());
      return;
    }
    for (size_t i = 0; i < calls; ++i) run_timed();
  }

  // False: this algorithm cannot run here; explanation->reason says why.
  bool explain(tutti_explanation* explanation) const {
    for (const Span& span : spans_) {
      *explanation = {};
      explanation->size = sizeof *explanation;
      const tutti_status status = tutti_allreduce_explain(span.count, shape_.dtype, shape_.op,
                                                          comm_, &config_, explanation);
      if (status == TUTTI_UNSUPPORTED) return false;
      require(status, comm_, algorithm_.c_str());
    }
    return true;
  }

  // Calls once with a poisoned output; wrong elements on this rank.
  uint64_t check(const Oracle& oracle) {
    uint64_t wrong = 0;
    for (const Span& span : spans_) {
      const size_t bytes = span.count * element_;
      if (shape_.in_place)
        oracle.fill(buffers_.recv() + span.offset, span.count);
      else
        buffers_.poison_output(span.offset, bytes);
      call(span);
      wrong += oracle.wrong_results(buffers_.recv() + span.offset, span.count);
      if (!shape_.in_place) wrong += oracle.wrong_inputs(buffers_.send() + span.offset, span.count);
    }
    return wrong + buffers_.broken_guard();
  }

  const std::string& algorithm() const { return algorithm_; }
  // One a span and call, of all calls so far; only for several spans.
  std::vector<double>& span_us() { return span_us_; }

 private:
  void call(const Span& span) {
    const void* send = shape_.in_place ? TUTTI_IN_PLACE : buffers_.send() + span.offset;
    const tutti_status status = tutti_allreduce_with(
        send, buffers_.recv() + span.offset, span.count, shape_.dtype, shape_.op, comm_, &config_);
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_, algorithm_.c_str());
  }
  void run_timed() {
    using Clock = std::chrono::steady_clock;
    for (const Span& span : spans_) {
      const auto begin = Clock::now();
      call(span);
      span_us_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
  }

  tutti_comm comm_;
  std::string algorithm_;
  CallShape shape_;
  std::vector<Span> spans_;
  const Buffers& buffers_;
  size_t element_;
  tutti_call_config config_ = TUTTI_CALL_CONFIG_INIT;
  std::vector<double> span_us_;
};

class LimitSubject : public Subject {
 public:
  LimitSubject(LimitWay way, const std::vector<Span>& spans, size_t element)
      : way_(std::move(way)) {
    for (const Span& span : spans) bytes_.push_back(span.count * element);
  }
  void run(size_t calls) override {
    for (size_t i = 0; i < calls; ++i)
      for (size_t bytes : bytes_) way_.limit->run(bytes);
  }
  const std::string& name() const { return way_.name; }

 private:
  LimitWay way_;
  std::vector<size_t> bytes_;
};

}  // namespace tutti::bench
