#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tools/build_info.h"
#include "tools/tutti/commands.h"

namespace {

// Its subcommand of that name, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* one) { return one->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

// Checks the command's name before any other error is reported.
void check_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (!words.empty() && (words[0].starts_with('-') || find_command(app, words[0]) != nullptr))
    return;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  refuse(words.empty() ? "which command? (" + names + ")"
                       : "unknown command " + words[0] + " (allowed: " + names + ")");
}

// A `--` between a command's options and the rest. CLI11 would end the subcommand at it.
void drop_marker(const CLI::App& app, std::vector<std::string>* words) {
  if (words->empty()) return;
  const CLI::App* command = find_command(app, words->front());
  if (command == nullptr || !command->get_prefix_command()) return;
  for (size_t i = 1; i < words->size() && (*words)[i].starts_with('-'); ++i) {
    if ((*words)[i] == "--") {
      words->erase(words->begin() + std::ptrdiff_t(i));
      return;
    }
    const CLI::Option* option = command->get_option_no_throw((*words)[i]);
    if (option != nullptr && option->get_items_expected_min() > 0) ++i;  // its value
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "tutti: runs ranks and MPI programs, says what is wrong with a job, shows and proves "
      "schedules, says what this machine offers, tunes for it",
      "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_BUILD_VERSION);
  app.require_subcommand(1);
  add_run(app);
  add_mpi(app);
  add_info(app);
  add_doctor(app);
  add_show(app);
  add_tune(app);
  add_verify(app);
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    check_command(app, words);
    drop_marker(app, &words);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // last word first
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
