// The prover: executes the schedules of all ranks on symbols and derives what they are worth. Nothing
// is trusted: an algorithm's claims are compared with the verdict by tests.
//
// The model: rendezvous (a send completes when its receive runs) and no buffering; per rank one
// in-order stream of sends and one in-order stream of everything else; a step waits for earlier steps
// of its rank that it conflicts with. What cannot deadlock here cannot deadlock with any buffering.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "lib/schedule/build.h"

namespace tutti::schedule {

struct Verdict {
  bool well_formed = false;   // ranges, peers and columns make sense; nothing unwritten is read
  bool deadlock_free = false;  // all steps of all ranks ran
  bool in_place_safe = false;  // no input is read where the output was written
  bool complete = false;       // every rank ends with every contribution exactly once
  bool ordered = false;        // in rank order: serves operators that are not commutative
  bool same_bits = false;      // one expression tree on all ranks
  bool position_independent = false;  // one expression tree for all chunks
  std::string tree;  // id of that tree; equal trees have equal ids. "-" if there is no single one

  uint32_t rounds = 0;            // with one port: one send and one receive a rank and round
  uint32_t rounds_multiport = 0;  // with a port for every peer
  uint64_t messages = 0;          // of all ranks
  uint32_t chunks = 1;            // of the vector; the unit of the next three
  uint64_t most_sent = 0;         // chunks sent by the busiest rank
  uint64_t total_sent = 0;
  uint64_t most_reduced = 0;      // chunk combinations by the busiest rank

  std::string failure;  // one sentence that names rank, step and cause; empty if none

  // What every algorithm must be, whatever it claims.
  bool sound() const {
    return well_formed && deadlock_free && in_place_safe && complete && same_bits;
  }
};

// A message as it ran, for drawings.
struct Transfer {
  uint32_t round = 0;  // from 1, one port
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t begin = 0, end = 0;  // chunks of the vector
  bool reduces = false;         // the receiver combines it as it arrives
};

// `programs[r]` is rank r's. Goal: allreduce, or broadcast from `root`.
Verdict prove(const std::vector<Program>& programs, Collective goal, uint32_t root = 0,
              std::vector<Transfer>* transfers = nullptr);

Verdict prove(const Algorithm& algorithm, uint32_t nranks, uint32_t root = 0,
              std::vector<Transfer>* transfers = nullptr);

}  // namespace tutti::schedule
