#include "bench/peers/peers_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/grid.h"
#include "bench/records.h"
#include "bench/sizes.h"

namespace tutti::bench {
namespace {

std::string ratio_cell(double ratio) {
  return ratio > 0 ? fmt::format("{:.2f}", ratio) : std::string("-");
}

std::string contenders_text(const std::vector<PeerInfo>& peers, size_t width) {
  std::string out;
  for (const PeerInfo& peer : peers) {
    out += wrap(fmt::format("  {}: {}; {}; ranks on CPUs {}", peer.name, peer.version,
                            peer.settings, peer.binding),
                width, 4);
    if (!peer.failure.empty()) out += wrap("    FAILED: " + peer.failure, width, 6);
  }
  return out;
}

std::string hops_text(const std::vector<PeerRow>& rows) {
  size_t dropped = 0, kept = 0;
  for (const PeerRow& row : rows)
    for (const PeerCell& cell : row.cells) dropped += cell.dropped, kept += cell.batches;
  return fmt::format(
      "hop: time of a flag from core to core. Batches of the rarer state of the machine do not "
      "count: "
      "{} of {}.",
      format_thousands(dropped), format_thousands(dropped + kept));
}

}  // namespace

double ratio_to_best(const std::vector<PeerInfo>& peers, const PeerRow& row, Role role,
                     size_t own) {
  double best = 0;
  for (size_t i = 0; i < peers.size(); ++i) {
    const PeerCell& cell = row.cells[i];
    if (peers[i].role != role || !cell.ran) continue;
    if (best == 0 || cell.us.median < best) best = cell.us.median;
  }
  const PeerCell& cell = row.cells[own];
  return cell.ran && cell.us.median > 0 ? best / cell.us.median : 0;
}

std::string render_peers(const Collective& collective, const std::vector<PeerInfo>& peers,
                         const std::vector<PeerRow>& rows, int nranks, Data data,
                         const std::vector<std::string>& notes, size_t width) {
  std::string out = fmt::format(
      "{} of {} ranks, {}float32{}, {}, {} data\n", collective.name, nranks,
      collective.rooted ? "root 0, " : "", collective.reduces ? " sum" : "",
      collective.in_place == InPlace::always ? "one buffer" : "input kept", data_name(data));
  out += wrap(
      "Time: one call in µs, slowest rank, median over batches. Everybody has a turn in every "
      "round; the others sleep meanwhile.",
      width, 0);
  out += wrap(about_data(data), width, 0);
  out += "\n" + contenders_text(peers, width) + "\n";

  const bool any_forced = std::any_of(peers.begin(), peers.end(),
                                      [](const PeerInfo& p) { return p.role == Role::forced; });
  std::vector<Column> columns{{collective.blocks ? "buffer" : "vector", false, {}}};
  for (const PeerInfo& peer : peers) columns.push_back({peer.name, false, {}});
  std::vector<Column> ratios;
  for (const Role role : {Role::peer, Role::forced}) {
    if (role == Role::forced && !any_forced) continue;
    for (size_t own = 0; own < peers.size() && peers[own].role == Role::own; ++own) {
      ratios.push_back({fmt::format("{} / {}", role == Role::peer ? "best peer" : "best forced",
                                    peers[own].name),
                        false,
                        {}});
      for (const PeerRow& row : rows)
        ratios.back().cells.push_back(ratio_cell(ratio_to_best(peers, row, role, own)));
    }
  }
  Column p95{"tutti's p95", false, {}}, hop{"hop ns", false, {}};
  for (const PeerRow& row : rows) {
    columns[0].cells.push_back(format_bytes(row.bytes));
    for (size_t i = 0; i < peers.size(); ++i)
      columns[i + 1].cells.push_back(row.cells[i].ran ? format_us(row.cells[i].us.median) : "-");
    p95.cells.push_back(row.cells[0].ran ? format_us(row.cells[0].us.p95) : "-");
    hop.cells.push_back(row.hop_ns > 0 ? fmt::format("{:.0f}", row.hop_ns) : "-");
  }
  columns.insert(columns.end(), ratios.begin(), ratios.end());
  columns.push_back(p95);
  columns.push_back(hop);
  out += render_grid(columns, width) + "\n";
  out += wrap(
      "tutti symmetric: vectors in memory that the ranks share (tutti_mem_alloc); tutti adopted: "
      "on "
      "the heap, of which the ranks share the pages (tutti_mem_adopt); all others have theirs on "
      "the "
      "heap.",
      width, 2);
  out += wrap(
      "best peer / tutti: how many times faster tutti is than the fastest of the others "
      "(more than 1: faster).",
      width, 2);
  if (any_forced)
    out += wrap(
        "best forced / tutti: the same against peers with components that they do not take by "
        "themselves.",
        width, 2);
  out += wrap(hops_text(rows), width, 2);
  for (const std::string& note : notes) out += wrap(note, width, 2);
  return out;
}

std::string peers_json(const Collective& collective, const std::vector<PeerInfo>& peers,
                       const PeerRow& row, int nranks, Data data) {
  std::string out;
  for (size_t i = 0; i < peers.size(); ++i) {
    const PeerCell& cell = row.cells[i];
    if (!cell.ran) continue;
    const double algbw = double(row.bytes) / cell.us.median / 1e3;
    nlohmann::ordered_json j;
    j["collective"] = collective.name;
    j["implementation"] = peers[i].name;
    j["version"] = peers[i].version;
    j["settings"] = peers[i].settings;
    j["forced"] = peers[i].role == Role::forced;
    j["ranks"] = nranks;
    j["bytes"] = row.bytes;
    j["count"] = collective.count_within(nranks, row.bytes / sizeof(float));
    j["dtype"] = "float32";
    j["op"] = collective.reduces ? "sum" : "none";
    j["in_place"] = false;
    j["data"] = data_name(data);
    j["iterations"] = cell.calls;
    j["batches"] = cell.batches;
    j["batches_dropped"] = cell.dropped;
    j["min_us"] = rounded(cell.us.min);
    j["median_us"] = rounded(cell.us.median);
    j["p95_us"] = rounded(cell.us.p95);
    j["p99_us"] = rounded(cell.us.p99);
    j["algbw_GBs"] = rounded(algbw);
    j["busbw_GBs"] = rounded(algbw * collective.factor(nranks));
    j["hop_ns"] = rounded(row.hop_ns);
    j["hop_before_ns"] = rounded(row.hop_before_ns);
    j["hop_after_ns"] = rounded(row.hop_after_ns);
    j["ratio_to_tutti"] = row.cells[0].ran
                              ? nlohmann::json(rounded(cell.us.median / row.cells[0].us.median))
                              : nullptr;
    j["wrong"] = cell.wrong;
    if (collective.rooted) j["root"] = 0;
    out += j.dump() + "\n";
  }
  return out;
}

}  // namespace tutti::bench
