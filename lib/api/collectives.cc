// The collectives of the C API, each in all its forms: blocking, without and with a config; the i
// form, which is nonblocking; the _init form, which is persistent; the _on form, which is enqueued
// on a stream.
#include "lib/api/collectives.h"

#include "lib/api/guard.h"
#include "lib/api/make_call.h"
#include "lib/api/request.h"

namespace tutti::api {

namespace {

template <auto make, class... Arguments>
tutti_status blocking(tutti_comm comm, const tutti_call_config* config, Arguments... arguments) {
  return calling(comm, [&](Communicator& c) {
    MadeCall made;
    if (Status checked = make_call<make>(c, config, &made, arguments...); !checked.ok())
        [[unlikely]]
      return c.refuse(std::move(checked));
    return c.run(made.call);
  });
}

template <auto make, class... Arguments>
tutti_status request_call(Begins begins, tutti_comm comm, const tutti_call_config* config,
                          tutti_request* out, Arguments... arguments) {
  return make_request(begins, comm, out, [&](Communicator& c, Operation* operation) -> Status {
    TUTTI_TRY(make_call<make>(c, config, &operation->made, arguments...));
    if (operation->made.call.key.lengths != 0) operation->keep_lengths(size_t(c.nranks()));
    return {};
  });
}

template <auto make, class... Arguments>
tutti_status on_stream(tutti_comm comm, const tutti_call_config* config, void* stream,
                       Arguments... arguments) {
  return calling(comm, [&](Communicator& c) {
    MadeCall made;
    if (Status checked = make_call<make>(c, config, &made, arguments...); !checked.ok())
      return c.refuse_on_stream(std::move(checked));
    return c.enqueue(made.call, stream);
  });
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

#define TUTTI_HOST_FORMS(name, parameters, arguments)                                         \
  tutti_status tutti_##name(TUTTI_BEFORE parameters tutti_comm comm) {                        \
    return tutti_##name##_with(TUTTI_BEFORE arguments comm, nullptr);                         \
  }                                                                                           \
  tutti_status tutti_##name##_with(TUTTI_BEFORE parameters tutti_comm comm,                   \
                                   const tutti_call_config* config) {                         \
    return api::blocking<api::make_##name>(comm, config TUTTI_BEHIND arguments);              \
  }                                                                                           \
  tutti_status tutti_i##name(TUTTI_BEFORE parameters tutti_comm comm,                         \
                             const tutti_call_config* config, tutti_request* request) {       \
    return api::request_call<api::make_##name>(api::Begins::now, comm, config,                \
                                               request TUTTI_BEHIND arguments);               \
  }                                                                                           \
  tutti_status tutti_##name##_init(TUTTI_BEFORE parameters tutti_comm comm,                   \
                                   const tutti_call_config* config, tutti_request* request) { \
    return api::request_call<api::make_##name>(api::Begins::when_started, comm, config,       \
                                               request TUTTI_BEHIND arguments);               \
  }
TUTTI_COLLECTIVES(TUTTI_HOST_FORMS)
#undef TUTTI_HOST_FORMS

#define TUTTI_STREAM_FORM(name, parameters, arguments)                                    \
  tutti_status tutti_##name##_on(TUTTI_BEFORE parameters tutti_comm comm,                 \
                                 const tutti_call_config* config, void* stream) {         \
    return api::on_stream<api::make_##name>(comm, config, stream TUTTI_BEHIND arguments); \
  }
TUTTI_EQUAL_BLOCK_COLLECTIVES(TUTTI_STREAM_FORM)
#undef TUTTI_STREAM_FORM

}  // extern "C"
