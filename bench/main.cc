// tutti-bench: measures, checks and compares. See bench/README.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "bench/collectives.h"
#include "bench/commands.h"
#include "bench/error.h"

namespace {

// Several ranks may fail at once, so the rank is named.
void complain(const char* text) {
  const char* rank = std::getenv("TUTTI_RANK");
  if (rank)
    std::fprintf(stderr, "tutti-bench: rank %s: %s\n", rank, text);
  else
    std::fprintf(stderr, "tutti-bench: %s\n", text);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::bench;
  CLI::App app{
      "Measures tutti's collectives against each other, against what the machine can do and "
      "against other libraries."};
  app.name("tutti-bench");
  app.require_subcommand(1);
  std::map<std::string, Command> commands;
  for (const Collective& collective : collectives())
    commands[collective.name] = add_collective(app, collective);
  commands["peers"] = add_peers(app);
  commands["peer-rank"] = add_peer_rank(app);

  try {
    if (argc > 1 && argv[1][0] != '-' && !commands.contains(argv[1]))
      throw BadInput(std::string("unknown command '") + argv[1] + "': --help lists them");
    app.parse(argc, argv);
    const std::string name = app.get_subcommands().front()->get_name();
    return commands.at(name)({argv + 1, argv + argc});
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    complain(error.what());
    return 2;
  } catch (const BadInput& error) {
    complain(error.what());
    return 2;
  } catch (const std::exception& error) {
    complain(error.what());
    return 1;
  }
}
