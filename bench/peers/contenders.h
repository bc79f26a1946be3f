// The contenders of a comparison: which are found on this machine, and how they are built and
// started.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tutti::bench {

using Commandline = std::vector<std::string>;

enum class Role {
  own,     // tutti, in one form or another
  peer,    // by its own settings
  forced,  // a peer with other settings
};

struct Contender {
  std::string name;  // "tutti", "Open MPI 4.1.4", "Open MPI 4.1.4 ucx", "Gloo"
  Role role = Role::peer;
  std::string settings;               // how it is started, for the reader
  std::vector<Commandline> commands;  // processes to start
  std::vector<std::pair<std::string, std::string>> environment;
};

struct ContenderOptions {
  std::string collective = "allreduce";
  int nranks = 2;
  bool forced = false;
  std::string algorithm = "auto";  // tutti's
  std::string transport;           // tutti's; "": its default
  std::string socket;              // the controller's
  std::string folder;              // an empty one, for programs and for ranks to meet
};

// tutti first, then tutti with symmetric and with adopted buffers. `notes` gets a sentence for
// every contender that is not available or cannot be built. Each contender's index is its team
// number.
std::vector<Contender> find_contenders(const ContenderOptions& options,
                                       std::vector<std::string>& notes);

}  // namespace tutti::bench
