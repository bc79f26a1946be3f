#include <cstdio>
#include <exception>

#include "tools/features.h"
#include "tools/tutti/commands.h"

int main(int argc, char** argv) {
  CLI::App app("tutti: runs ranks, shows and proves schedules, says what this machine offers",
               "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_BUILD_VERSION);
  app.require_subcommand(1);
  add_run(app);
  add_info(app);
  add_show(app);
  add_verify(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::ParseError& end) {
    if (end.get_exit_code() == 0) return app.exit(end);  // help and version
    std::fprintf(stderr, "tutti: %s\n", end.what());
    return 2;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "tutti: %s\n", failure.what());
    return 1;
  }
}
