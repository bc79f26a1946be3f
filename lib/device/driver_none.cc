// The driver of a build without CUDA: there is none.
#include "lib/device/driver.h"

namespace tutti::device {

namespace {

Status none() { return {TUTTI_UNSUPPORTED, "this build of tutti has no CUDA"}; }

}  // namespace

struct Driver::Functions {};
struct Driver::Device {};

Driver::Driver() = default;
Driver::~Driver() = default;

Status Driver::get(Driver**) { return none(); }
Status Driver::info(int, Info*) { return none(); }
int Driver::current() const { return -1; }
Driver::Current::Current(Driver& driver, int) : driver_(driver), status_(none()) {}
Driver::Current::~Current() = default;
Pointed Driver::classify(const void*) const { return {}; }
Status Driver::allocate(size_t, Address*) { return none(); }
void Driver::release(Address) {}
void Driver::keep_released_memory(int) {}
Status Driver::allocate_pinned(size_t, void**, Address*) { return none(); }
void Driver::release_pinned(void*) {}
Status Driver::copy(void*, const void*, size_t) { return none(); }
Status Driver::copy_on(Stream, void*, const void*, size_t) { return none(); }
Status Driver::fill(Address, uint8_t, size_t) { return none(); }
Status Driver::export_memory(Address, Exported*) { return none(); }
void Driver::close_export(Exported&) {}
Status Driver::import_memory(const Exported&, int, Address*) { return none(); }
void Driver::close_import(const Exported&, Address) {}
Status Driver::reach(int, const std::array<uint8_t, 16>&, bool*) { return none(); }
Status Driver::make_stream(Stream*) { return none(); }
void Driver::release_stream(Stream) {}
Status Driver::capture_of(Stream, uint64_t*) { return none(); }
Status Driver::make_event(Event*) { return none(); }
void Driver::release_event(Event) {}
Status Driver::record(Event, Stream) { return none(); }
Status Driver::wait_event(Stream, Event) { return none(); }
Status Driver::ended(Event, bool*) { return none(); }
Status Driver::wait_flags(Stream, Flags) { return none(); }
Status Driver::write_words(std::span<const Address>, uint32_t) { return none(); }
Status Driver::begin_capture(Stream) { return none(); }
Status Driver::end_capture(Stream, Graph*) { return none(); }
Status Driver::launch_graph(Graph, Stream) { return none(); }
void Driver::release_graph(Graph) {}
Status Driver::kernel(std::string_view, Kernel*) { return none(); }
Status Driver::launch(Kernel, uint32_t, uint32_t, const void*, size_t, Stream) { return none(); }

}  // namespace tutti::device
