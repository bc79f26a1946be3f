// What `tutti-bench COLLECTIVE` measures: one algorithm on one communicator, over one vector or
// over the buckets of a model; and the limit over the same bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/buffers.h"
#include "bench/calls.h"
#include "bench/clock.h"
#include "bench/collectives.h"
#include "bench/error.h"
#include "bench/limit.h"
#include "bench/live.h"
#include "bench/measure.h"
#include "bench/oracle.h"
#include "bench/rank.h"
#include "bench/result.h"

namespace tutti::bench {

// A vector within the buffers.
struct Span {
  size_t offset;  // bytes
  size_t count;   // elements of the vector, or of one block
};

struct CallShape {
  tutti_dtype dtype;
  tutti_op op;
  tutti_level level;
  int root;
  bool in_place;
  bool unfused;
  bool symmetric = false;  // TUTTI_CALL_SYMMETRIC
  Data data = Data::still;
};

// A subject that describes itself and checks its output. Its functions are collective, as run().
class CheckedSubject : public Subject {
 public:
  // Calls once with a poisoned output. Returns the number of wrong elements on this rank.
  virtual uint64_t check(const Oracle& oracle) = 0;
  // Known after the first call.
  virtual void describe(Result* result) const = 0;
  // How calls went in the end; false: the library cannot say. Local.
  virtual bool explain_again(tutti_explanation*) { return false; }
  // One time for each span and call so far; only with several spans.
  std::vector<double>& span_us() { return span_us_; }

 protected:
  std::vector<double> span_us_;
};

class CollectiveSubject : public CheckedSubject {
 public:
  CollectiveSubject(const Collective& collective, const Rank& me, tutti_comm comm,
                    std::string algorithm, const CallShape& shape, std::vector<Span> spans,
                    const Buffers& buffers)
      : functions_(calls_of(collective)),
        comm_(comm),
        me_(me),
        algorithm_(std::move(algorithm)),
        collective_(collective),
        place_{me.rank(), me.nranks(), shape.root, 0},
        shape_(shape),
        spans_(std::move(spans)),
        buffers_(buffers),
        element_(tutti_dtype_size(shape.dtype)) {
    config_.algorithm = algorithm_.c_str();
    config_.level = shape.level;
    if (shape.unfused) config_.flags |= TUTTI_CALL_UNFUSED;
    if (shape.symmetric) config_.flags |= TUTTI_CALL_SYMMETRIC;
    if (collective.in_place == InPlace::always)
      in_place_ = place_.at_root();
    else
      in_place_ = shape.in_place && (!collective.rooted || place_.at_root());
    for (const Span& span : spans_) calls_.push_back(make_call(span));
  }
  CollectiveSubject(const CollectiveSubject&) = delete;
  CollectiveSubject& operator=(const CollectiveSubject&) = delete;

  void run(size_t calls) override {
    if (calls_.size() == 1) {
      for (size_t i = 0; i < calls; ++i) call(calls_.front());
      return;
    }
    for (size_t i = 0; i < calls; ++i) run_timed();
  }

  double run_us(size_t calls) override {
    if (shape_.data == Data::still) return CheckedSubject::run_us(calls);
    double sum_us = 0;
    for (size_t i = 0; i < calls; ++i) {
      for (size_t k = 0; k < spans_.size(); ++k) {
        const Vectors at = vectors(spans_[k]);
        const double us = live_call_us(
            {at.input, at.lengths.send * element_, at.output, at.lengths.recv * element_},
            [this] { me_.barrier(); }, [&] { call(calls_[k]); });
        if (spans_.size() > 1) span_us_.push_back(us);
        sum_us += us;
      }
    }
    return sum_us;
  }

  // False: this algorithm cannot run here; explanation->reason says why. Collective: a call that
  // the library cannot explain is tried.
  virtual bool explain(tutti_explanation* explanation) {
    for (const Call& c : calls_) {
      *explanation = {};
      explanation->size = sizeof *explanation;
      const tutti_status status =
          explainable()
              ? tutti_allreduce_explain(c.count, c.dtype, c.op, comm_, &config_, explanation)
              : attempt(c, explanation);
      if (status == TUTTI_UNSUPPORTED) return false;
      require(status, comm_, algorithm_.c_str());
    }
    return true;
  }

  bool explain_again(tutti_explanation* explanation) override {
    explanation->size = sizeof *explanation;
    const Call& c = calls_.front();
    return explainable() && algorithm_ == "auto" &&
           tutti_allreduce_explain(c.count, c.dtype, c.op, comm_, &config_, explanation) ==
               TUTTI_OK;
  }

  void describe(Result* result) const override { result->algorithm = algorithm_; }

  uint64_t check(const Oracle& oracle) override {
    uint64_t wrong = 0;
    for (size_t i = 0; i < spans_.size(); ++i) wrong += check(oracle, spans_[i], calls_[i]);
    return wrong + buffers_.broken_guard();
  }

 protected:
  // As run() makes it.
  virtual void check_call(const Call& c) { call(c); }
  void call(const Call& c) {
    const tutti_status status = functions_.plain(c);
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_, algorithm_.c_str());
  }

  // The library's status of a call that was tried.
  void describe_attempt(tutti_status status, tutti_explanation* explanation) const {
    tutti_error error{};
    if (status == TUTTI_UNSUPPORTED && tutti_comm_last_error(comm_, &error) == TUTTI_OK)
      std::snprintf(explanation->reason, sizeof explanation->reason, "%s", error.text);
    if (algorithm_ != "auto")
      std::snprintf(explanation->algorithm, sizeof explanation->algorithm, "%s",
                    algorithm_.c_str());
  }

  Calls functions_;
  tutti_comm comm_;
  const Rank& me_;
  std::string algorithm_;
  std::vector<Call> calls_;  // one per span

 private:
  bool explainable() const { return std::string(collective_.name) == "allreduce"; }

  tutti_status attempt(const Call& c, tutti_explanation* explanation) const {
    const tutti_status status = functions_.plain(c);
    describe_attempt(status, explanation);
    return status;
  }

  Call make_call(const Span& span) const {
    Call c{buffers_.send() + span.offset,
           buffers_.recv() + span.offset,
           span.count,
           shape_.dtype,
           shape_.op,
           place_.root,
           place_.rank,
           place_.nranks,
           comm_,
           &config_};
    if (in_place_ && collective_.in_place == InPlace::output)
      c.recv = const_cast<void*>(TUTTI_IN_PLACE);
    else if (in_place_)
      c.send = TUTTI_IN_PLACE;
    return c;
  }

  // Where the input and the output of a call are, and how many elements they have.
  struct Vectors {
    Place place;
    Lengths lengths;
    unsigned char* input;
    unsigned char* output;
    bool replaced = false;  // the output overwrites the input, all or part of it
  };
  Vectors vectors(const Span& span) const {
    Vectors at{place_, {}, buffers_.send() + span.offset, buffers_.recv() + span.offset};
    at.place.count = span.count;
    at.lengths = collective_.lengths(at.place);
    const size_t own_block = size_t(place_.rank) * span.count * element_;
    if (in_place_ && collective_.in_place == InPlace::output) {
      at.output = at.input + own_block;
    } else if (in_place_) {
      at.input = at.output + (collective_.in_place == InPlace::own_block ? own_block : 0);
      at.replaced = at.lengths.recv > 0;
    }
    return at;
  }

  uint64_t check(const Oracle& oracle, const Span& span, const Call& c) {
    const Vectors at = vectors(span);
    const size_t bytes = collective_.longest(place_.nranks, span.count) * element_;
    buffers_.poison_output(span.offset, bytes);
    if (in_place_ && collective_.in_place != InPlace::output)
      oracle.fill(at.input, at.lengths.send);
    check_call(c);
    uint64_t wrong = collective_.wrong({oracle, at.place, at.output, element_});
    if (!at.replaced) wrong += oracle.wrong_inputs(at.input, at.lengths.send);
    const size_t written = at.lengths.recv * element_;
    if (!in_place_) wrong += buffers_.written(span.offset + written, bytes - written);
    return wrong;
  }

  void run_timed() {
    for (const Call& c : calls_) {
      const auto begin = Clock::now();
      call(c);
      span_us_.push_back(us_since(begin));
    }
  }

  const Collective& collective_;
  Place place_;  // without a count
  CallShape shape_;
  std::vector<Span> spans_;
  const Buffers& buffers_;
  size_t element_;
  bool in_place_ = false;  // on this rank
  tutti_call_config config_ = TUTTI_CALL_CONFIG_INIT;
};

class LimitSubject : public Subject {
 public:
  // `bytes`: of the longer buffer of each call.
  LimitSubject(const Rank& me, LimitWay way, std::vector<size_t> bytes, Data data)
      : me_(me), way_(std::move(way)), bytes_(std::move(bytes)), data_(data) {}
  void run(size_t calls) override {
    for (size_t i = 0; i < calls; ++i)
      for (size_t bytes : bytes_) way_.limit->run(bytes);
  }
  double run_us(size_t calls) override {
    if (data_ == Data::still) return Subject::run_us(calls);
    double us = 0;
    for (size_t i = 0; i < calls; ++i) {
      for (size_t bytes : bytes_) {
        us += live_call_us(
            way_.limit->touched(bytes), [this] { me_.barrier(); }, [&] { way_.limit->run(bytes); });
      }
    }
    return us;
  }
  const std::string& name() const { return way_.name; }

 private:
  const Rank& me_;
  LimitWay way_;
  std::vector<size_t> bytes_;
  Data data_;
};

}  // namespace tutti::bench
