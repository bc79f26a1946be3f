// One call of any collective, described by a Case, run on all ranks and compared with a plain
// oracle: every element of every buffer is predicted, also those that must not change.
#pragma once

#include <cstdint>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/support/vectors.h"
#include "tutti/tutti.h"

namespace tutti::testing {

// The v forms are named as their functions.
inline const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> all = {"allreduce",     "reduce",
                                               "broadcast",     "allgather",
                                               "allgatherv",    "gather",
                                               "gatherv",       "scatter",
                                               "scatterv",      "alltoall",
                                               "alltoallv",     "scan",
                                               "exscan",        "reduce_scatter_block",
                                               "reduce_scatter"};
  return all;
}

// The collective's name for tutti_algorithm_get().
inline std::string family_of(const std::string& name) {
  if (name == "reduce_scatter_block") return "reduce_scatter";
  return name.back() == 'v' ? name.substr(0, name.size() - 1) : name;
}

enum class Form { blocking, nonblocking, persistent };

struct Case {
  std::string name = "allreduce";
  std::string algorithm = "auto";
  int nranks = 2;
  int root = 0;
  // For equal blocks lengths[0]. For v forms lengths[r] is rank r's; in alltoallv the block from
  // rank i to rank j has (lengths[i] + j) % 5 times lengths[j] elements.
  std::vector<size_t> lengths = {1};
  size_t gap = 0;  // elements between blocks of v forms
  bool in_place = false;
  tutti_op op = TUTTI_SUM;
  Form form = Form::blocking;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << c.name << ", " << c.algorithm << ", " << c.nranks << " ranks, root " << c.root
      << ", lengths";
  for (const size_t length : c.lengths) out << " " << length;
  return out << ", gap " << c.gap << (c.in_place ? ", in place" : "") << ", " << tutti_op_name(c.op)
             << (c.form == Form::blocking      ? ""
                 : c.form == Form::nonblocking ? ", nonblocking"
                                               : ", persistent");
}

// The three functions of a collective, for invoke().
#define TUTTI_FORMS(name) tutti_##name##_with, tutti_i##name, tutti_##name##_init

// Makes a call in the case's form; a persistent one twice if its input is still there.
template <class With, class Begin, class Init, class... Arguments>
tutti_status invoke(const Case& c, With with, Begin begin, Init init, Arguments... arguments) {
  if (c.form == Form::blocking) return with(arguments...);
  tutti_request request = nullptr;
  if (c.form == Form::nonblocking) {
    const tutti_status begun = begin(arguments..., &request);
    return begun == TUTTI_OK ? tutti_wait(&request) : begun;
  }
  tutti_status status = init(arguments..., &request);
  for (int times = c.in_place ? 1 : 2; status == TUTTI_OK && times > 0; --times) {
    status = tutti_start(request);
    if (status == TUTTI_OK) status = tutti_wait(&request);
  }
  if (const tutti_status freed = tutti_request_free(&request); status == TUTTI_OK) status = freed;
  return status;
}

class CaseOracle {
 public:
  explicit CaseOracle(const Case& c) : c_(c), n_(size_t(c.nranks)) {}

  using Vector = std::vector<uint32_t>;
  static constexpr uint32_t untouched = 0xdecafbad;

  // Element i of `rank`'s input for block `block`.
  TUTTI_INLINED static uint32_t value(size_t rank, size_t block, size_t i) {
    return uint32_t(rank * 2654435761u) ^ uint32_t(block * 40503u + i * 97u) ^ 0x5bd1e995u;
  }
  bool even() const { return c_.name.back() != 'v' && c_.name != "reduce_scatter"; }
  size_t length(size_t from, size_t to) const {
    if (even()) return c_.lengths[0];
    const auto of = [&](size_t r) { return c_.lengths[r % c_.lengths.size()]; };
    if (c_.name == "alltoallv") {
      // Symmetric in place, where a block received is as long as the block sent.
      return c_.in_place ? of(from) + of(to) : (of(from) + to) % 5 * of(to);
    }
    return of(family_of(c_.name) == "gather" || c_.name == "allgatherv" ? from : to);
  }
  TUTTI_INLINED uint32_t combine(uint32_t a, uint32_t b) const {
    switch (c_.op) {
      case TUTTI_SUM:
        return a + b;
      case TUTTI_PROD:
        return a * b;
      case TUTTI_MIN:
        return std::min(a, b);
      case TUTTI_BXOR:
        return a ^ b;
      default:
        return std::max(a, b);
    }
  }
  // The reduction over ranks [0, end) of element i of a block.
  TUTTI_INLINED uint32_t reduced(size_t end, size_t block, size_t i) const {
    uint32_t total = value(0, block, i);
    for (size_t r = 1; r < end; ++r) total = combine(total, value(r, block, i));
    return total;
  }

 private:
  const Case& c_;
  size_t n_;
};

// Runs the case on this rank. Returns what is wrong, or an empty string.
inline std::string run_case(const Case& c, int rank, tutti_comm comm) {
  using Vector = CaseOracle::Vector;
  const CaseOracle oracle(c);
  const size_t n = size_t(c.nranks), self = size_t(rank), root = size_t(c.root);
  const std::string family = family_of(c.name);
  const bool at_root = self == root, even = oracle.even();
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = c.algorithm.c_str();

  // Lengths and offsets of the blocks of a buffer that has all of them.
  std::vector<size_t> sent(n), received(n), send_at(n), recv_at(n);
  size_t send_size = 0, recv_size = 0;
  for (size_t r = 0; r < n; ++r) {
    sent[r] = oracle.length(self, r);
    received[r] = oracle.length(r, self);
    const size_t gap = even || family == "reduce_scatter" ? 0 : c.gap;
    send_at[r] = send_size + gap;
    recv_at[r] = recv_size + gap;
    send_size = send_at[r] + sent[r];
    recv_size = recv_at[r] + received[r];
  }
  const size_t count = c.lengths[0];
  Vector in, out, expected;
  const auto fill = [&](Vector* to, size_t at, size_t block, size_t length) {
    testing::fill(to->data() + at, length,
                  [=](size_t i) TUTTI_INLINED { return CaseOracle::value(self, block, i); });
  };
  // Expects a block from another rank's input, or a reduction over ranks [0, ranks).
  const auto expect = [&](size_t at, size_t from, size_t block, size_t length) {
    fill_unchecked(expected.data() + at, 0, length,
                   [=](size_t i) TUTTI_INLINED { return CaseOracle::value(from, block, i); });
  };
  const auto expect_reduced = [&](size_t at, size_t ranks, size_t block, size_t length) {
    fill_unchecked(expected.data() + at, 0, length, [=, &oracle](size_t i) TUTTI_INLINED {
      return oracle.reduced(ranks, block, i);
    });
  };
  const auto blank = [](size_t size) {
    Vector made(size);
    testing::fill(made.data(), size, [](size_t) TUTTI_INLINED { return CaseOracle::untouched; });
    return made;
  };

  tutti_status status = TUTTI_OK;
  const void* send = nullptr;
  if (family == "allreduce" || family == "scan" || family == "exscan" || family == "reduce") {
    in = blank(count);
    fill(&in, 0, 0, count);
    out = blank(count);
    const bool in_place = c.in_place && (family != "reduce" || at_root);
    if (in_place) out = in;
    expected = out;
    if (family == "allreduce" || (family == "reduce" && at_root)) expect_reduced(0, n, 0, count);
    if (family == "scan") expect_reduced(0, self + 1, 0, count);
    if (family == "exscan" && rank > 0) expect_reduced(0, self, 0, count);
    send = in_place ? TUTTI_IN_PLACE : in.data();
    if (family == "allreduce") {
      status = invoke(c, TUTTI_FORMS(allreduce), send, out.data(), count, TUTTI_UINT32, c.op, comm,
                      &config);
    } else if (family == "scan") {
      status =
          invoke(c, TUTTI_FORMS(scan), send, out.data(), count, TUTTI_UINT32, c.op, comm, &config);
    } else if (family == "exscan") {
      status = invoke(c, TUTTI_FORMS(exscan), send, out.data(), count, TUTTI_UINT32, c.op, comm,
                      &config);
    } else {
      status = invoke(c, TUTTI_FORMS(reduce), send, at_root ? out.data() : nullptr, count,
                      TUTTI_UINT32, c.op, c.root, comm, &config);
    }
  } else if (family == "broadcast") {
    out = blank(count);
    if (at_root) fill(&out, 0, 0, count);
    expected = out;
    expect(0, root, 0, count);
    status =
        invoke(c, TUTTI_FORMS(broadcast), out.data(), count, TUTTI_UINT32, c.root, comm, &config);
  } else if (family == "allgather" || family == "gather") {
    const bool gets = family == "allgather" || at_root;
    const bool in_place = c.in_place && gets;
    const size_t own = even ? count : oracle.length(self, self);
    // All ranks pass the same lengths: those of the blocks sent, by sender.
    in = blank(own);
    fill(&in, 0, 0, own);
    out = blank(gets ? recv_size : 0);
    if (in_place) fill(&out, recv_at[self], 0, own);
    expected = out;
    for (size_t r = 0; gets && r < n; ++r) expect(recv_at[r], r, 0, received[r]);
    send = in_place ? TUTTI_IN_PLACE : in.data();
    if (c.name == "allgather") {
      status =
          invoke(c, TUTTI_FORMS(allgather), send, out.data(), count, TUTTI_UINT32, comm, &config);
    } else if (c.name == "allgatherv") {
      status = invoke(c, TUTTI_FORMS(allgatherv), send, own, out.data(), received.data(),
                      recv_at.data(), TUTTI_UINT32, comm, &config);
    } else if (c.name == "gather") {
      status = invoke(c, TUTTI_FORMS(gather), send, gets ? out.data() : nullptr, count,
                      TUTTI_UINT32, c.root, comm, &config);
    } else {
      status = invoke(c, TUTTI_FORMS(gatherv), send, own, gets ? out.data() : nullptr,
                      gets ? received.data() : nullptr, gets ? recv_at.data() : nullptr,
                      TUTTI_UINT32, c.root, comm, &config);
    }
  } else if (family == "scatter") {
    const bool in_place = c.in_place && at_root;
    const size_t own = oracle.length(root, self);
    if (at_root) {
      in = blank(send_size);
      for (size_t r = 0; r < n; ++r) fill(&in, send_at[r], r, sent[r]);
    }
    out = blank(in_place ? 0 : own);
    expected = out;
    if (!in_place) expect(0, root, self, own);
    void* const recv = in_place ? const_cast<void*>(TUTTI_IN_PLACE) : out.data();
    const Vector before = in;
    if (c.name == "scatter") {
      status = invoke(c, TUTTI_FORMS(scatter), at_root ? in.data() : nullptr, recv, count,
                      TUTTI_UINT32, c.root, comm, &config);
    } else {
      status = invoke(c, TUTTI_FORMS(scatterv), at_root ? in.data() : nullptr,
                      at_root ? sent.data() : nullptr, at_root ? send_at.data() : nullptr, recv,
                      own, TUTTI_UINT32, c.root, comm, &config);
    }
    if (in != before) return "the send buffer was changed";
  } else if (family == "alltoall") {
    in = blank(c.in_place ? recv_size : send_size);
    for (size_t r = 0; r < n; ++r) {
      fill(&in, c.in_place ? recv_at[r] : send_at[r], r, c.in_place ? received[r] : sent[r]);
    }
    out = c.in_place ? in : blank(recv_size);
    expected = out;
    for (size_t r = 0; r < n; ++r) expect(recv_at[r], r, self, received[r]);
    send = c.in_place ? TUTTI_IN_PLACE : in.data();
    status =
        c.name == "alltoall"
            ? invoke(c, TUTTI_FORMS(alltoall), send, out.data(), count, TUTTI_UINT32, comm, &config)
            : invoke(c, TUTTI_FORMS(alltoallv), send, sent.data(), send_at.data(), out.data(),
                     received.data(), recv_at.data(), TUTTI_UINT32, comm, &config);
  } else {  // reduce_scatter
    const size_t own = sent[self];
    in = blank(send_size);
    for (size_t r = 0; r < n; ++r) fill(&in, send_at[r], r, sent[r]);
    out = c.in_place ? in : blank(own);
    expected = out;
    expect_reduced(0, n, self, own);
    send = c.in_place ? TUTTI_IN_PLACE : in.data();
    status = c.name == "reduce_scatter"
                 ? invoke(c, TUTTI_FORMS(reduce_scatter), send, out.data(), sent.data(),
                          TUTTI_UINT32, c.op, comm, &config)
                 : invoke(c, TUTTI_FORMS(reduce_scatter_block), send, out.data(), count,
                          TUTTI_UINT32, c.op, comm, &config);
    // The buffer of a call in place may hold anything beyond the result.
    if (c.in_place) {
      out.resize(own);
      expected.resize(own);
    }
  }
  if (status != TUTTI_OK) {
    return std::string(tutti_status_name(status)) + ": " + sentence(comm);
  }
  if (out.size() != expected.size()) return "the result has another length";
  const uint32_t* const wanted = expected.data();
  const size_t wrong =
      first_difference(out.data(), out.size(), [=](size_t i) TUTTI_INLINED { return wanted[i]; });
  if (wrong == out.size()) return {};
  return "rank " + std::to_string(rank) + ", element " + std::to_string(wrong) + " of " +
         std::to_string(expected.size()) + ": got " + std::to_string(out[wrong]) + ", expected " +
         std::to_string(expected[wrong]);
}

}  // namespace tutti::testing
