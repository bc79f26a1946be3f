// Makes progress on the workers of this process that no call uses at the moment.
//
// What a Link has taken must reach the peer even if this rank never calls again, or only on another
// communicator. With sockets the kernel does that. UCX sends only in its progress function: where a
// socket was full the rest waits in UCX, and so do UCX's own answers to peers. So a thread of the
// process calls it for each worker that is not in use.
#pragma once

namespace tutti::ucx {

class Worker;

// From open to close. The thread runs while there is any worker.
void tend(Worker* worker);
// On return the thread does not use the worker any more.
void stop_tending(Worker* worker);
// Whether the thread runs.
bool progress_thread_runs();

}  // namespace tutti::ucx
