// tutti_copy: see CopyArguments in abi.h. Pieces are cut into chunks of one size, which the blocks
// take in turn, so that pieces of any lengths keep all blocks busy.
#pragma once

#include <cstdint>

#include "lib/device/abi.h"
#include "lib/device/kernels/common.h"
#include "lib/device/kernels/grid.h"

namespace tutti::device {

// In the shared memory of a block.
struct CopyScratch {
  Turn turn;
  Address from[most_ranks];
  Address to[most_ranks];
};

// Copies one chunk of a piece with the threads of a block, in units that the alignment of both
// addresses allows; each thread has four loads in flight.
template <class Unit>
TUTTI_ON_BOTH void copy_units(Address from, Address to, uint64_t bytes, uint64_t chunk,
                              const Team& team) {
  constexpr uint64_t size = sizeof(Unit), most = copy_chunk_bytes / size;
  uint64_t head = (0 - to) % size;
  if (head > bytes) head = bytes;
  const uint64_t units = (bytes - head) / size, tail = head + units * size;
  if (chunk == 0) {
    for (uint64_t i = team.thread; i < head; i += team.threads) {
      store(to + i, load<uint8_t>(from + i));
    }
    for (uint64_t i = tail + team.thread; i < bytes; i += team.threads) {
      store(to + i, load<uint8_t>(from + i));
    }
  }
  const uint64_t end = units < (chunk + 1) * most ? units : (chunk + 1) * most;
  constexpr uint32_t width = 4;
  for (uint64_t i = chunk * most + team.thread; i < end; i += width * uint64_t{team.threads}) {
    Unit unit[width] = {};
    TUTTI_UNROLL
    for (uint32_t k = 0; k < width; ++k) {
      const uint64_t at = i + k * uint64_t{team.threads};
      if (at < end) unit[k] = load<Unit>(from + head + at * size);
    }
    TUTTI_UNROLL
    for (uint32_t k = 0; k < width; ++k) {
      const uint64_t at = i + k * uint64_t{team.threads};
      if (at < end) store(to + head + at * size, unit[k]);
    }
  }
}

TUTTI_ON_BOTH void copy_chunk(Address from, Address to, uint64_t bytes, uint64_t chunk,
                              const Team& team) {
  const Address differences = from ^ to;
  if (differences % 16 == 0) return copy_units<Packet>(from, to, bytes, chunk, team);
  if (differences % 8 == 0) return copy_units<uint64_t>(from, to, bytes, chunk, team);
  if (differences % 4 == 0) return copy_units<uint32_t>(from, to, bytes, chunk, team);
  if (differences % 2 == 0) return copy_units<uint16_t>(from, to, bytes, chunk, team);
  copy_units<uint8_t>(from, to, bytes, chunk, team);
}

// Chunks are numbered across all pieces.
TUTTI_ON_BOTH void copy_pieces(const CopyArguments& arguments, const CopyScratch& scratch,
                               const Team& team) {
  uint64_t chunk = team.block, before = 0;
  for (uint32_t p = 0; p < arguments.pieces; ++p) {
    const Address from = scratch.from[p], to = scratch.to[p];
    const uint64_t bytes = arguments.piece[p].bytes;
    const uint64_t behind = before + copy_chunks(bytes);
    // A piece that cannot be reached from here, or is in its place already, is left out.
    const bool moves = from != 0 && to != 0 && from != to;
    for (; chunk < behind; chunk += team.blocks) {
      if (moves) copy_chunk(from, to, bytes, chunk - before, team);
    }
    before = behind;
  }
}

TUTTI_ON_BOTH void copy_kernel(const CopyArguments& arguments, const Team& team,
                               CopyScratch& scratch) {
  const Common& common = arguments.common;
  begin(common, team, scratch.turn);
  for (uint32_t p = team.thread; p < arguments.pieces; p += team.threads) {
    scratch.from[p] = input_at(common, arguments.piece[p].from);
    scratch.to[p] = output_at(common, arguments.piece[p].to);
  }
  team.synchronise();
  if (scratch.turn.works()) copy_pieces(arguments, scratch, team);
  end(common, team, scratch.turn);
}

}  // namespace tutti::device
