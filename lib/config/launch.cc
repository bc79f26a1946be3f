#include "lib/config/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "lib/base/fd.h"
#include "lib/config/config.h"

namespace tutti {
namespace {

// No process can change the id while a rank reads it.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

struct Names {
  Variable rank, nranks, local_rank;
};

Status missing(Variable present, Variable absent) {
  return {TUTTI_INVALID, std::string(config_variable(present).name) + " is set, but " +
                             config_variable(absent).name + " is not"};
}

// Rank and size, both or neither; *found says which.
Status read_place(const Names& names, Launch* out, bool* found) {
  std::optional<int64_t> rank, nranks, local_rank;
  TUTTI_TRY(config_integer(names.rank, &rank));
  TUTTI_TRY(config_integer(names.nranks, &nranks));
  TUTTI_TRY(config_integer(names.local_rank, &local_rank));
  *found = rank || nranks;
  if (!*found) return {};
  if (!nranks) return missing(names.rank, names.nranks);
  if (!rank) return missing(names.nranks, names.rank);
  if (*rank >= *nranks)
    return {TUTTI_INVALID, std::string(config_variable(names.rank).name) + " is " +
                               std::to_string(*rank) + ", but must be less than " +
                               config_variable(names.nranks).name + ", which is " +
                               std::to_string(*nranks)};
  out->rank = int(*rank);
  out->nranks = int(*nranks);
  out->local_rank = int(local_rank.value_or(0));
  return {};
}

Status bad_descriptor(Variable variable, int fd, const char* what) {
  return {TUTTI_INVALID,
          std::string(config_variable(variable).name) + " is " + std::to_string(fd) +
              ", which is not " + what +
              "; the program must be started by `tutti run` itself and must not close its "
              "descriptors"};
}

// Children of this process are no ranks and must not inherit the job's secret.
void keep_from_children(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

Status read_job_descriptors(Launch* out) {
  std::optional<int64_t> job, listen;
  TUTTI_TRY(config_integer(Variable::tutti_job_fd, &job));
  TUTTI_TRY(config_integer(Variable::tutti_listen_fd, &listen));
  if (!job) return missing(Variable::tutti_rank, Variable::tutti_job_fd);
  const int fd = int(*job);
  const ssize_t length = sizeof out->id.bytes;
  if (fcntl(fd, F_GET_SEALS) != seals || pread(fd, out->id.bytes, size_t(length), 0) != length)
    return bad_descriptor(Variable::tutti_job_fd, fd, "the memory file of a job");
  keep_from_children(fd);
  if (out->rank != 0) return {};
  if (!listen) return missing(Variable::tutti_job_fd, Variable::tutti_listen_fd);
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(int(*listen), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return bad_descriptor(Variable::tutti_listen_fd, int(*listen), "a listening socket");
  keep_from_children(int(*listen));
  out->listen_fd = int(*listen);
  return {};
}

Status read_rendezvous(Launch* out) {
  std::optional<std::string> host, key_file, agent_listens;
  std::optional<int64_t> port;
  TUTTI_TRY(config_text(Variable::master_addr, &host));
  TUTTI_TRY(config_integer(Variable::master_port, &port));
  TUTTI_TRY(config_text(Variable::torchelastic_use_agent_store, &agent_listens));
  TUTTI_TRY(config_text(Variable::tutti_key_file, &key_file));
  if (!host) return missing(Variable::rank, Variable::master_addr);
  if (!port) return missing(Variable::rank, Variable::master_port);
  if (!key_file)
    return {TUTTI_AUTH,
            "RANK and WORLD_SIZE are set, but TUTTI_KEY_FILE is not: ranks that find each other "
            "at an address need the key of the job to know each other by"};
  out->host = *host;
  out->port = uint16_t(*port);
  // Torchrun's agent has that one.
  if (agent_listens == "True") out->port = uint16_t(*port < 65535 ? *port + 1 : *port - 1);
  out->key_file = *key_file;
  return {};
}

Status alone_among(Variable size, const std::string& processes) {
  return {TUTTI_INVALID,
          std::string(config_variable(size).name) + " is " + processes +
              ", but nothing says how these processes find each other: start them by "
              "`tutti run`, set RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_KEY_FILE "
              "(RANK=0 WORLD_SIZE=1: each is alone), or give an all-gather, MPI's for one, to "
              "tutti_comm_create_from_allgather()"};
}

// Several processes of another launcher, each of which would be alone without a word.
Status check_other_launchers() {
  for (const Variable size :
       {Variable::ompi_comm_world_size, Variable::pmi_size, Variable::slurm_step_num_tasks}) {
    std::optional<int64_t> processes;
    TUTTI_TRY(config_integer(size, &processes));
    if (processes.value_or(1) > 1) return alone_among(size, std::to_string(*processes));
  }
  std::optional<std::string> nodes;
  TUTTI_TRY(config_text(Variable::pet_nnodes, &nodes));
  if (nodes && *nodes != "1" && *nodes != "1:1") return alone_among(Variable::pet_nnodes, *nodes);
  return {};
}

}  // namespace

Status read_launch(Launch* out) {
  *out = {};
  bool found = false;
  TUTTI_TRY(read_place({Variable::tutti_rank, Variable::tutti_size, Variable::tutti_local_rank},
                       out, &found));
  if (found) {
    std::optional<int64_t> local_nranks;
    TUTTI_TRY(config_integer(Variable::tutti_local_size, &local_nranks));
    out->local_nranks = int(local_nranks.value_or(0));
    out->by = Launch::By::tutti_run;
    return read_job_descriptors(out);
  }
  TUTTI_TRY(read_place({Variable::rank, Variable::world_size, Variable::local_rank}, out, &found));
  if (!found) return check_other_launchers();
  if (out->nranks == 1) return {};
  out->local_nranks = 0;
  out->by = Launch::By::rendezvous;
  return read_rendezvous(out);
}

Status share_id(const tutti_unique_id& id, int* fd) {
  Fd file(memfd_create("tutti-job", MFD_ALLOW_SEALING));
  if (!file) return system_error("cannot make the memory file of the job", errno);
  if (write(file.get(), id.bytes, sizeof id.bytes) != ssize_t(sizeof id.bytes) ||
      fcntl(file.get(), F_ADD_SEALS, seals) != 0)
    return system_error("cannot fill the memory file of the job", errno);
  *fd = file.release();
  return {};
}

}  // namespace tutti
