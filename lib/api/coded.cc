// Compressed allreduce of the C API.
#include <algorithm>
#include <cstring>

#include "lib/api/compound.h"
#include "lib/api/sized.h"
#include "lib/sparse/codecs.h"
#include "lib/sparse/coded.h"

namespace tutti::api {

namespace {

Status read_codec(const tutti_codec* given, tutti_codec* codec) {
  if (given == nullptr) return {TUTTI_INVALID, "the codec is NULL"};
  TUTTI_TRY(read_sized(given, "the codec", codec));
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
                   const tutti_codec* given, const tutti_codec_error* error, tutti_codec* codec) {
  TUTTI_TRY(check_vector(count, TUTTI_FLOAT32));
  TUTTI_TRY(check_builtin(op, TUTTI_FLOAT32));
  TUTTI_TRY(read_codec(given, codec));
  if (error != nullptr) TUTTI_TRY(check_size(error, "the codec error"));
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
                                        const tutti_codec* given, tutti_comm comm,
                                        const tutti_call_config* config, tutti_codec_error* error) {
  tutti_codec codec{};
  return api::compound(
      comm, Compound::allreduce_coded, config, {send, recv},
      [&](tutti_level level) -> Status {
        TUTTI_TRY(api::check_coded(send, recv, count, op, given, error, &codec));
        // The encoding of an element depends on its place in a block.
        const tutti_level most = codec.block == 1 ? TUTTI_LEVEL_LAYOUT : TUTTI_LEVEL_FAST;
        return api::check_held(level, most, TUTTI_FLOAT32, op);
      },
      [&](sparse::CompoundCall& call) -> Status {
        sparse::Arguments arguments = api::arguments_of(count, TUTTI_FLOAT32, op);
        std::strcpy(arguments.codec, codec.name);
        arguments.codec_block = codec.block;
        arguments.codec_bytes =
            call_back("codec", [&] { return codec.encoded_bytes(codec.block, codec.context); });
        const void* const input = send == TUTTI_IN_PLACE ? recv : send;
        tutti_codec_error measured{};
        TUTTI_TRY(sparse::allreduce_coded(call, arguments, codec, static_cast<const float*>(input),
                                          static_cast<float*>(recv),
                                          error != nullptr ? &measured : nullptr));
        if (error != nullptr) api::write_sized(measured, error);
        return {};
      });
}

}  // extern "C"
