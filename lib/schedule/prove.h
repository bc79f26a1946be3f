// The prover: executes the schedules of all ranks on symbols and derives their properties and
// costs. Nothing is trusted: an algorithm's claims are compared with the verdict by tests.
//
// The model: rendezvous (a send completes when its receive runs) and no buffering; per rank one
// in-order stream of sends and one in-order stream of everything else; a step waits for earlier
// steps of its rank that it conflicts with. A schedule that cannot deadlock here cannot deadlock
// with any buffering.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/schedule/algorithm.h"
#include "lib/schedule/build.h"
#include "lib/schedule/count.h"

namespace tutti::schedule {

struct Verdict {
  // Found in this order; the first that is false ends the proof, and the rest stay false.
  bool well_formed = false;    // ranges, peers and the chunks of operands make sense
  bool defined = false;        // nothing is read that was not written
  bool in_place_safe = false;  // no input is read where the output was written
  bool matched = false;        // sends and receives agree in number and chunks, per directed pair
  bool deadlock_free = false;  // all steps of all ranks ran
  bool complete = false;       // ranks that get a result have each contribution once
  bool same_bits = false;      // one expression tree on all ranks that get it
  bool ordered = false;        // in rank order: serves operators that are not commutative
  bool position_independent = false;  // one expression tree for all chunks
  bool canonical = false;             // every result is the canonical tree over its contributions
  // Every result is made by one fold, in one place, of unchanged contributions: so it can be
  // rounded once, or be independent of their order.
  bool one_fold = false;
  // The id of the tree by which all chunks are combined (of a scan: of the trees of all ranks),
  // empty if there is no single one or nothing is combined. Equal trees have equal ids, in every
  // run and build.
  std::string tree;

  uint32_t rounds = 0;            // with one port: one send and one receive a rank and round
  uint32_t rounds_multiport = 0;  // with a port for every peer
  Counts counts;

  std::string failure;  // one sentence that names rank, step and cause; empty if sound

  // What every algorithm must be, whatever it claims.
  bool sound() const {
    return well_formed && defined && in_place_safe && matched && deadlock_free && complete &&
           same_bits;
  }
};

// Which transfers and changes happened in which round, for drawings. Rounds are those of one port,
// from 1.
struct Trace {
  struct Transfer {
    uint32_t round = 0;
    uint32_t from = 0;
    uint32_t to = 0;
    std::vector<uint32_t> chunks;  // of the vector
    bool reduces = false;          // the receiver combines it as it arrives
  };
  struct Change {  // a new value of a chunk of a rank's output
    uint32_t round = 0;
    uint32_t rank = 0;
    uint32_t chunk = 0;
    uint32_t contributions = 0;  // that are in it now
  };
  std::vector<Transfer> transfers;
  std::vector<Change> changes;
};

// `programs[r]` is rank r's; at least one. `root`: of rooted collectives.
Verdict prove(const std::vector<Program>& programs, Collective collective, uint32_t root = 0,
              Trace* trace = nullptr);

// For all ranks of the shape; shape.rank is ignored.
Verdict prove(const Algorithm& algorithm, const Shape& shape, Trace* trace = nullptr);
Verdict prove(const Algorithm& algorithm, uint32_t nranks, uint32_t root = 0,
              Trace* trace = nullptr);

// Empty if the verdict is sound and is what the algorithm claims: rank order unless it refuses
// ordered operators, and costs equal to its formulas. Else one sentence with the first difference.
std::string broken_claim(const Algorithm& algorithm, uint32_t nranks, const Verdict& verdict,
                         uint32_t root = 0);

}  // namespace tutti::schedule
