// Looks after the workers of this process that nobody uses at the moment.
//
// What a Link has taken must reach the peer even if this rank never calls again, or only on another
// communicator. Of a socket the kernel sees to that, of UCX its progress function does, which
// somebody must call: where a socket was full, the rest waits in UCX, and so do UCX's own answers
// to peers. So a thread of the process visits each worker that is not used at the moment.
#pragma once

namespace tutti::ucx {

class Worker;

// From open to close. The thread runs while there is a worker to look after.
void tend(Worker* worker);
// The thread does not touch it any more.
void stop_tending(Worker* worker);
// Whether the thread runs.
bool progress_thread_runs();

}  // namespace tutti::ucx
