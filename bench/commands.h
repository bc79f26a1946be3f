// The subcommands of tutti-bench. Each adds itself to the command line and returns what runs it:
// its exit status; BadInput and Failure are for main.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::bench {

struct Collective;

using Command = std::function<int(const std::vector<std::string>& arguments)>;

Command add_collective(CLI::App& app, const Collective& collective);
Command add_peers(CLI::App& app);
// Internal: the ranks of tutti in a comparison with its peers.
Command add_peer_rank(CLI::App& app);

}  // namespace tutti::bench
