// Compressed allreduce of the C API.
#include <algorithm>
#include <cstring>

#include "lib/api/compound.h"
#include "lib/sparse/codecs.h"
#include "lib/sparse/coded.h"

namespace tutti::api {

namespace {

Status check_codec(const tutti_codec* codec) {
  if (codec == nullptr) return {TUTTI_INVALID, "the codec is NULL"};
  if (codec->size < sizeof(tutti_codec)) {
    return {TUTTI_INVALID, "the codec's size is not set"};
  }
  if (codec->encoded_bytes == nullptr || codec->encode == nullptr || codec->decode == nullptr) {
    return {TUTTI_INVALID, "a function of the codec is NULL"};
  }
  const std::string_view name = codec->name != nullptr ? codec->name : "";
  const bool printable =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 0x7f; });
  if (name.empty() || name.size() >= sizeof(sparse::Arguments::codec) || !printable) {
    return {TUTTI_INVALID, "the codec's name is not 1 to 31 printable characters"};
  }
  if (codec->block == 0) return {TUTTI_INVALID, "the codec's block is of 0 elements"};
  return {};
}

Status check_coded(const void* send, const void* recv, uint64_t count, tutti_op op,
                   const tutti_codec* codec, const tutti_codec_error* error) {
  TUTTI_TRY(check_vector(count, TUTTI_FLOAT32));
  TUTTI_TRY(check_builtin(op, TUTTI_FLOAT32));
  TUTTI_TRY(check_codec(codec));
  if (error != nullptr && error->size < sizeof(tutti_codec_error)) {
    return {TUTTI_INVALID, "the size of the codec error is not set"};
  }
  return check_vectors(send, recv, count, TUTTI_FLOAT32);
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_codec_from_name(const char* name, const tutti_codec** out) {
  return api::guarded([&]() -> Status {
    if (name == nullptr || out == nullptr) return {TUTTI_INVALID, "an argument is NULL"};
    return sparse::codec_from_name(name, out);
  });
}

tutti_status tutti_allreduce_coded(const void* send, void* recv, size_t count, tutti_op op,
                                   const tutti_codec* codec, tutti_comm comm) {
  return tutti_allreduce_coded_with(send, recv, count, op, codec, comm, nullptr, nullptr);
}
tutti_status tutti_allreduce_coded_with(const void* send, void* recv, size_t count, tutti_op op,
                                        const tutti_codec* codec, tutti_comm comm,
                                        const tutti_call_config* config, tutti_codec_error* error) {
  return api::compound(
      comm, Compound::allreduce_coded, config, {send, recv},
      [&](tutti_level level) -> Status {
        TUTTI_TRY(api::check_coded(send, recv, count, op, codec, error));
        // What is encoded in blocks depends on where in a block it stands.
        const tutti_level most = codec->block == 1 ? TUTTI_LEVEL_LAYOUT : TUTTI_LEVEL_FAST;
        return api::check_held(level, most, TUTTI_FLOAT32, op);
      },
      [&](sparse::CompoundCall& call) {
        sparse::Arguments arguments = api::arguments_of(count, TUTTI_FLOAT32, op);
        std::strcpy(arguments.codec, codec->name);
        arguments.codec_block = codec->block;
        arguments.codec_bytes = codec->encoded_bytes(codec->block, codec->context);
        const void* const input = send == TUTTI_IN_PLACE ? recv : send;
        return sparse::allreduce_coded(call, arguments, *codec, static_cast<const float*>(input),
                                       static_cast<float*>(recv), error);
      });
}

}  // extern "C"
