// `tutti verify`: proves every algorithm at every requested rank count and compares the result with
// the algorithm's claims.
#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "lib/base/types.h"
#include "lib/schedule/levels.h"
#include "lib/schedule/prove.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/rank_counts.h"

namespace tutti {
namespace {

using schedule::Levels;
using schedule::Verdict;

constexpr size_t most_detailed = 6;  // rank counts up to which the table has a row for each

struct VerifyOptions {
  std::string collective = "all";
  std::string algorithms = "all";
  std::string ranks = "2:64";
  std::string json;
  bool markdown = false;
};

struct Proof {
  const Algorithm* algorithm;
  uint32_t nranks;
  Verdict verdict;     // for root 0
  std::string broken;  // empty: all as claimed, for every root tried
  Levels levels;       // levels that hold for every root tried
};

// The algorithms of the collective, or of all.
std::vector<const Algorithm*> algorithms_of(const std::string& collective) {
  std::vector<const Algorithm*> some;
  std::string known = "all";
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name = collective_name(algorithm.collective);
    if (collective == "all" || collective == name) some.push_back(&algorithm);
    if (!known.ends_with(" " + name)) known += ", " + name;
  }
  if (some.empty()) refuse("unknown collective " + collective + " (allowed: " + known + ")");
  return some;
}

std::vector<const Algorithm*> chosen(const VerifyOptions& options) {
  const std::vector<const Algorithm*> all = algorithms_of(options.collective);
  if (options.algorithms == "all") return all;
  std::string names = "all";
  std::set<std::string> known;
  for (const Algorithm* algorithm : all) {
    if (known.insert(algorithm->name).second) names += std::string(", ") + algorithm->name;
  }
  std::vector<const Algorithm*> some;
  std::stringstream parts(options.algorithms);
  for (std::string name; std::getline(parts, name, ',');) {
    const size_t before = some.size();
    for (const Algorithm* algorithm : all) {
      if (algorithm->name == name) some.push_back(algorithm);
    }
    if (some.size() == before) refuse("unknown algorithm " + name + " (allowed: " + names + ")");
  }
  if (some.empty()) refuse("--algorithms is empty (allowed: " + names + ")");
  return some;
}

// All roots of few ranks, some of many.
std::vector<uint32_t> roots(const Algorithm& algorithm, uint32_t nranks) {
  if (!is_rooted(algorithm.collective)) return {0};
  std::vector<uint32_t> some;
  for (uint32_t root = 0; root < nranks; root += nranks <= 16 ? 1 : nranks / 5)
    some.push_back(root);
  return some;
}

Proof prove_one(const Algorithm& algorithm, uint32_t nranks) {
  Proof proof{&algorithm, nranks, {}, {}, {}};
  for (const uint32_t root : roots(algorithm, nranks)) {
    const Verdict verdict = schedule::prove(algorithm, nranks, root);
    const Levels levels = schedule::derive_levels(algorithm, {.nranks = nranks, .root = root});
    if (root == 0) {
      proof.verdict = verdict;
      proof.levels = levels;
    }
    proof.levels.layout = proof.levels.layout && levels.layout;
    proof.levels.canonical = proof.levels.canonical && levels.canonical;
    proof.levels.exact = proof.levels.exact && levels.exact;
    proof.verdict.ordered = proof.verdict.ordered && verdict.ordered;
    if (!proof.broken.empty()) continue;
    proof.broken = schedule::broken_claim(algorithm, nranks, verdict, root);
    if (!proof.broken.empty() && root != 0) proof.broken += fmt::format(" (root {})", root);
  }
  return proof;
}

class Progress {
 public:
  explicit Progress(size_t total) : total_(total), shown_(isatty(STDERR_FILENO) && total > 50) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void advance(const Proof& proof) {
    if (!shown_) return;
    constexpr size_t width = 32;
    const size_t full = ++done_ * width / total_;
    fmt::print(stderr, "\r[{:<{}}] {}/{} {} on {} ranks\033[K", std::string(full, '='), width,
               done_, total_, proof.algorithm->name, proof.nranks);
  }

 private:
  size_t total_, done_ = 0;
  bool shown_;
};

std::vector<std::string> names_of(const Levels& levels) {
  std::vector<std::string> names;
  for (const tutti_level level :
       {TUTTI_LEVEL_FAST, TUTTI_LEVEL_LAYOUT, TUTTI_LEVEL_CANONICAL, TUTTI_LEVEL_EXACT}) {
    if (levels.hold(level)) names.emplace_back(level_name(level));
  }
  return names;
}

nlohmann::ordered_json to_json(const Proof& proof) {
  const Verdict& verdict = proof.verdict;
  nlohmann::ordered_json object = {
      {"collective", collective_name(proof.algorithm->collective)},
      {"algorithm", proof.algorithm->name},
      {"ranks", proof.nranks},
      {"ok", proof.broken.empty()},
      {"ordered", verdict.ordered},
      {"same_bits", verdict.same_bits},
      {"position_independent", verdict.position_independent},
      {"tree", nullptr},
      {"levels", names_of(proof.levels)},
      {"rounds", verdict.rounds},
      {"rounds_multiport", verdict.rounds_multiport},
      {"messages", verdict.counts.messages},
      {"max_messages", verdict.counts.most_messages},
      {"max_sent_bytes_over_n", verdict.counts.sent.value()},
      {"max_sent_exact", verdict.counts.sent.text()},
      {"max_reduced_bytes_over_n", verdict.counts.reduced.value()},
      {"complete", verdict.complete},
      {"deadlock_free", verdict.deadlock_free},
      {"in_place_safe", verdict.in_place_safe},
  };
  if (!verdict.tree.empty()) object["tree"] = verdict.tree;
  if (!proof.broken.empty()) object["failure"] = proof.broken;
  return object;
}

using Row = std::vector<std::string>;

void print_table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

void print_details(const std::vector<Proof>& proofs) {
  std::vector<Row> rows = {{"collective", "algorithm", "ranks", "ok", "rank order", "same bits",
                            "any position", "tree", "rounds", "with p-1 ports", "messages",
                            "sent/n", "reduced/n"}};
  const auto yes = [](bool truth) { return std::string(truth ? "yes" : "no"); };
  for (const Proof& proof : proofs) {
    const Verdict& v = proof.verdict;
    rows.push_back({collective_name(proof.algorithm->collective), proof.algorithm->name,
                    std::to_string(proof.nranks), yes(proof.broken.empty()), yes(v.ordered),
                    yes(v.same_bits), yes(v.position_independent), v.tree.empty() ? "-" : v.tree,
                    std::to_string(v.rounds), std::to_string(v.rounds_multiport),
                    std::to_string(v.counts.messages), v.counts.sent.text(),
                    v.counts.reduced.text()});
  }
  print_table(rows);
}

// The properties of an algorithm over all rank counts.
struct Summary {
  const Algorithm* algorithm;
  size_t proofs = 0, ok = 0, same_bits = 0;
  size_t beyond_two = 0, ordered = 0, position_independent = 0;  // of more than two ranks
  size_t layout = 0, canonical = 0, exact = 0;                   // the same
  std::string trees;  // ids of all rank counts, empty if one has none
};

std::vector<Summary> summarise(const std::vector<Proof>& proofs) {
  std::vector<Summary> all;
  for (const Proof& proof : proofs) {
    if (all.empty() || all.back().algorithm != proof.algorithm) all.push_back({proof.algorithm});
    Summary& sum = all.back();
    ++sum.proofs;
    sum.ok += proof.broken.empty();
    sum.same_bits += proof.verdict.same_bits;
    if (proof.nranks <= 2) continue;  // where even the ring keeps order
    ++sum.beyond_two;
    sum.ordered += proof.verdict.ordered;
    sum.position_independent += proof.verdict.position_independent;
    sum.layout += proof.levels.layout;
    sum.canonical += proof.levels.canonical;
    sum.exact += proof.levels.exact;
    sum.trees += proof.verdict.tree + " ";
  }
  return all;
}

std::string of(size_t some, size_t all) {
  return some == all ? "yes" : some == 0 ? "no" : fmt::format("{} of {}", some, all);
}

// "fast, layout, canonical on 9 of 62"
std::string levels_of(const Summary& sum) {
  if (sum.same_bits < sum.proofs) return "none";
  std::string text = "fast";
  const auto add = [&](const char* level, size_t holds) {
    if (holds == 0) return;
    text += std::string(", ") + level;
    if (holds < sum.beyond_two) text += fmt::format(" on {} of {}", holds, sum.beyond_two);
  };
  add("layout", sum.layout);
  add("canonical", sum.canonical);
  add("exact", sum.exact);
  return text;
}

void print_summary(const std::vector<Proof>& proofs) {
  std::vector<Row> rows = {{"collective", "algorithm", "as claimed", "rank order", "same bits",
                            "any position", "rounds", "with p-1 ports", "messages", "sent/n",
                            "reduced/n"}};
  for (const Summary& sum : summarise(proofs)) {
    const Claims& claims = sum.algorithm->claims;
    rows.push_back({collective_name(sum.algorithm->collective), sum.algorithm->name,
                    fmt::format("{} of {}", sum.ok, sum.proofs), of(sum.ordered, sum.beyond_two),
                    of(sum.same_bits, sum.proofs), of(sum.position_independent, sum.beyond_two),
                    claims.rounds, claims.rounds_multiport, claims.messages, claims.sent,
                    claims.reduced});
  }
  print_table(rows);
  fmt::print(
      "\nFormulas: p ranks, L = ceil(log2 p), l = floor(log2 p), M = ceil(log2(p-1)), q = 2^l,\n"
      "e = p - q, h = ceil(p/2), s the ones in the binary digits of 1 to p-1; [x] is 1 where x\n"
      "holds, else 0; n is the size of a rank's longer buffer; sent and reduced by the busiest\n"
      "rank. Rank order and position are judged beyond two ranks.\n");
}

// Nothing is combined, so all bits are the senders'.
void print_moves(Collective collective, const std::vector<Summary>& summaries) {
  fmt::print(
      "| {} | rounds | with p-1 ports | messages | sent/n | levels |\n|---|---|---|---|---|---|\n",
      collective_name(collective));
  for (const Summary& sum : summaries) {
    if (sum.algorithm->collective != collective) continue;
    const Claims& c = sum.algorithm->claims;
    fmt::print("| `{}` | {} | {} | {} | {} | {} |\n", sum.algorithm->name, c.rounds,
               c.rounds_multiport, c.messages, c.sent, sum.same_bits < sum.proofs ? "none" : "all");
  }
  fmt::print("\n");
}

// The table of the README. Equal letters: the same tree, and so the same bits, at every rank count.
void print_markdown(const std::vector<Proof>& proofs) {
  const auto summaries = summarise(proofs);
  for (uint32_t c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (std::none_of(summaries.begin(), summaries.end(),
                     [&](const Summary& sum) { return sum.algorithm->collective == collective; })) {
      continue;
    }
    if (!reduces(collective)) {
      print_moves(collective, summaries);
      continue;
    }
    std::map<std::string, char> letters;
    fmt::print(
        "| {} | rounds | with p-1 ports | messages | sent/n | reduced/n | rank order | same "
        "bits | any position | tree | levels |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        collective_name(collective));
    for (const Summary& sum : summaries) {
      if (sum.algorithm->collective != collective) continue;
      const bool one_tree = sum.position_independent == sum.beyond_two;
      std::string tree = "-";
      if (one_tree) {
        const char next = char('A' + letters.size());
        tree = letters.try_emplace(sum.trees, next).first->second;
      }
      const Claims& c = sum.algorithm->claims;
      fmt::print("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                 sum.algorithm->name, c.rounds, c.rounds_multiport, c.messages, c.sent, c.reduced,
                 of(sum.ordered, sum.beyond_two), of(sum.same_bits, sum.proofs),
                 of(sum.position_independent, sum.beyond_two), tree, levels_of(sum));
    }
    fmt::print("\n");
  }
}

void write_json(const std::string& path, const std::vector<Proof>& proofs) {
  std::string lines;
  for (const Proof& proof : proofs) lines += to_json(proof).dump() + "\n";
  if (path == "-") {
    fmt::print("{}", lines);
    return;
  }
  std::ofstream file(path);
  file << lines;
  file.close();
  if (!file) {
    fmt::print(stderr, "tutti verify: cannot write {}\n", path);
    finish(1);
  }
}

void verify(const VerifyOptions& options) {
  const auto which = chosen(options);
  const auto counts = parse_rank_counts(options.ranks, most_ranks);
  std::vector<Proof> proofs;
  {
    Progress progress(which.size() * counts.size());
    for (const Algorithm* algorithm : which) {
      for (const uint32_t nranks : counts) {
        proofs.push_back(prove_one(*algorithm, nranks));
        progress.advance(proofs.back());
      }
    }
  }
  if (!options.json.empty()) write_json(options.json, proofs);
  if (options.markdown) {
    print_markdown(proofs);
  } else if (options.json != "-") {
    counts.size() <= most_detailed ? print_details(proofs) : print_summary(proofs);
  }
  size_t broken = 0;
  for (const Proof& proof : proofs) {
    if (proof.broken.empty()) continue;
    ++broken;
    fmt::print(stderr, "{} {} on {} ranks: {}\n", collective_name(proof.algorithm->collective),
               proof.algorithm->name, proof.nranks, proof.broken);
  }
  if (broken != 0) finish(1);
}

}  // namespace
}  // namespace tutti

void add_verify(CLI::App& app) {
  CLI::App* verify = app.add_subcommand("verify", "prove algorithms and what they claim");
  auto options = std::make_shared<tutti::VerifyOptions>();
  verify->add_option("--collective", options->collective, "all (default), or one: allreduce");
  verify->add_option("--algorithms", options->algorithms, "all (default), or a list: ring,tree");
  verify->add_option("-n,--ranks", options->ranks, "rank counts: 8, 2,3,8 or 2:64 (default 2:64)");
  verify->add_option("--json", options->json, "an object a line into this file (- is stdout)");
  verify->add_flag("--markdown", options->markdown, "the table of algorithms/README.md");
  verify->callback([options] { tutti::verify(*options); });
}
