// Calls on memory of a GPU.
#include "lib/comm/comm.h"

namespace tutti {

namespace {

Status no_device() {
  return {TUTTI_UNSUPPORTED, "the communicator was made without a device"};
}

}  // namespace

tutti_status Communicator::enqueue(const Call&, void*) { return fail(no_device()); }

tutti_status Communicator::device_status() { return TUTTI_OK; }

tutti_status Communicator::mem_alloc_device(size_t, void**) { return fail(no_device()); }

tutti_status Communicator::mem_register_device(void*, size_t) { return fail(no_device()); }

}  // namespace tutti
