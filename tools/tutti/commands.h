// The subcommands of `tutti`: each adds itself to the command line, and its callback ends by
// returning (exit status 0) or by one of the two functions below.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

void add_run(CLI::App& app);
void add_mpi(CLI::App& app);
void add_info(CLI::App& app);
void add_doctor(CLI::App& app);
void add_show(CLI::App& app);
void add_tune(CLI::App& app);
void add_verify(CLI::App& app);

// Ends the program with this exit status; any message has been printed.
[[noreturn]] inline void finish(int status) { throw CLI::RuntimeError(status); }

// Ends the program with exit status 2 and one line: what was given and what is allowed.
[[noreturn]] inline void refuse(const std::string& sentence) {
  throw CLI::ValidationError(sentence, CLI::ExitCodes::ValidationError);
}
