// Structs that start with their size, as programs built with other versions of the header have
// them: those of 0.1.0, byte by byte, shorter ones, and longer ones.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::on_threads;
using tutti::testing::sentence;

// Memory of a struct of any version: zeros up to its end, then what must stay as it is.
class Bytes {
 public:
  static constexpr unsigned char beyond = 0xab;
  explicit Bytes(size_t size, unsigned char content = 0) : size_(size) {
    bytes_.fill(beyond);
    std::memset(bytes_.data(), content, size);
    set(0, size);
  }
  template <size_t n>
  explicit Bytes(const unsigned char (&given)[n]) : size_(n) {
    bytes_.fill(beyond);
    std::memcpy(bytes_.data(), given, n);
  }
  template <class T>
  void set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  template <class T>
  T get(size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(value));
    return value;
  }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  bool all(size_t from, size_t to, unsigned char value) const {
    for (size_t i = from; i < to; ++i) {
      if (bytes_[i] != value) return false;
    }
    return true;
  }
  bool ends_well() const { return all(size_, bytes_.size(), beyond); }

 private:
  alignas(16) std::array<unsigned char, 8192> bytes_;
  size_t size_;
};

// size, transports, timeout_ms 400, setup_ms 9000, interface_, progress_thread, level 3, device
constexpr unsigned char comm_config_0_1_0[56] = {
    56, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x90, 1, 0, 0, 0, 0, 0, 0, 0x28, 0x23, 0, 0,
    0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,    0, 0, 0, 0, 0, 0, 0, 0,    0,    0, 0};
constexpr size_t at_transports = 8, at_timeout = 16;
// size, timeout_ms 400, algorithm, flags 1 (unfused), level 2
constexpr unsigned char call_config_0_1_0[32] = {32, 0, 0, 0, 0, 0, 0, 0, 0x90, 1, 0,
                                                 0,  0, 0, 0, 0, 0, 0, 0, 0,    0, 0,
                                                 0,  0, 1, 0, 0, 0, 2, 0, 0,    0};
constexpr size_t at_algorithm = 16, at_flags = 24;
constexpr size_t counters_0_1_0 = 56, explanation_0_1_0 = 408, info_0_1_0 = 32, codec_0_1_0 = 56,
                 codec_error_0_1_0 = 40;

tutti_status make_alone(const Bytes& config, tutti_comm* comm) {
  tutti_unique_id id{};
  EXPECT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  Bytes copy = config;
  return tutti_comm_create_from_id(&id, 0, 1, copy.as<tutti_comm_config>(), comm);
}

// The transport and the seconds after which a barrier alone ends, of two ranks made with it.
void on_two(const Bytes& config, const std::function<void(int, tutti_comm)>& body) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(2, [&](int rank) {
    Bytes copy = config;
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, copy.as<tutti_comm_config>(), &comm),
              TUTTI_OK)
        << tutti_last_error();
    body(rank, comm);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

std::string transport_of(tutti_comm comm) {
  const char* name = nullptr;
  EXPECT_EQ(tutti_comm_transport(comm, &name), TUTTI_OK);
  return name;
}

TEST(Sized, ACommConfigOf010IsUnderstood) {
  Bytes config(comm_config_0_1_0);
  config.set(at_transports, "tcp");
  on_two(config, [](int rank, tutti_comm comm) {
    EXPECT_EQ(transport_of(comm), "tcp");
    if (rank == 1) return;
    EXPECT_NE(tutti_barrier(comm), TUTTI_OK);  // alone: the limit, or the other one is gone
  });
}

TEST(Sized, AShorterCommConfigHasTheDefaultsForTheRest) {
  // The size alone; with the transports; with the limit of calls, 1 ms of setup being cut off.
  for (const size_t size : {size_t{8}, size_t{16}, size_t{24}}) {
    Bytes config(size);
    if (size > at_transports) config.set(at_transports, "shm");
    if (size > at_timeout) config.set(at_timeout, int64_t{20'000});
    config.set(24, int64_t{-1});  // not the caller's any more
    on_two(config, [&](int, tutti_comm comm) {
      if (size > at_transports) {
        EXPECT_EQ(transport_of(comm), "shm");
      }
      EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    });
  }
}

TEST(Sized, ALongerOneIsFineWhileItSetsNothingUnknown) {
  Bytes config(100);
  config.set(at_transports, "inproc");
  tutti_comm comm = nullptr;
  ASSERT_EQ(make_alone(config, &comm), TUTTI_OK) << tutti_last_error();
  ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  config.set(99, '\1');
  EXPECT_EQ(make_alone(config, &comm), TUTTI_INVALID);
  EXPECT_EQ(std::string(tutti_last_error()),
            "the communicator config sets what this version of tutti does not know, at byte 99");
}

TEST(Sized, ASizeThatCannotBeIsRefused) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{4097}, SIZE_MAX}) {
    Bytes config(56);
    config.set(0, size);
    tutti_comm comm = nullptr;
    EXPECT_EQ(make_alone(config, &comm), TUTTI_INVALID) << size;
    EXPECT_NE(std::string(tutti_last_error()).find("the size of the communicator config"),
              std::string::npos);
    on_comm(1, "inproc", [&](int, tutti_comm c) {
      EXPECT_EQ(tutti_barrier_with(c, config.as<tutti_call_config>()), TUTTI_INVALID);
      EXPECT_NE(sentence(c).find("the size of the call config"), std::string::npos);
      EXPECT_EQ(tutti_comm_get_counters(c, config.as<tutti_comm_counters>()), TUTTI_INVALID);
      EXPECT_EQ(tutti_allreduce_explain(1, TUTTI_INT8, TUTTI_SUM, c, nullptr,
                                        config.as<tutti_explanation>()),
                TUTTI_INVALID);
      float value = 1;
      EXPECT_EQ(tutti_allreduce_coded(&value, &value, 1, TUTTI_SUM, config.as<tutti_codec>(), c),
                TUTTI_INVALID);
    });
    EXPECT_EQ(tutti_algorithm_get(0, config.as<tutti_algorithm_info>()), TUTTI_INVALID);
  }
}

TEST(Sized, CallConfigsOfAnyVersion) {
  on_comm(2, "shm", [](int, tutti_comm comm) {
    const auto explain = [&](Bytes config) {
      Bytes out(explanation_0_1_0);
      EXPECT_EQ(
          tutti_allreduce_explain(1000, TUTTI_FLOAT32, TUTTI_SUM, comm,
                                  config.as<tutti_call_config>(), out.as<tutti_explanation>()),
          TUTTI_OK)
          << sentence(comm);
      return std::string(out.as<tutti_explanation>()->algorithm) + " " +
             out.as<tutti_explanation>()->path;
    };
    Bytes config(call_config_0_1_0);
    config.set(at_algorithm, "two-shot");
    EXPECT_EQ(explain(config), "two-shot schedule");
    // Without flags and level.
    Bytes shorter(at_flags);
    shorter.set(at_algorithm, "two-shot");
    shorter.set(at_flags, ~0u);
    EXPECT_EQ(explain(shorter), "two-shot fused");
    Bytes longer(48);
    longer.set(at_algorithm, "two-shot");
    EXPECT_EQ(explain(longer), "two-shot fused");
    longer.set(40, 1);
    EXPECT_EQ(tutti_barrier_with(comm, longer.as<tutti_call_config>()), TUTTI_INVALID);
    EXPECT_EQ(sentence(comm),
              "the call config sets what this version of tutti does not know, at byte 40");
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK);
  });
}

TEST(Sized, ResultsFillWhatTheCallerHasAndNoMore) {
  on_comm(1, "inproc", [](int, tutti_comm comm) {
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    for (const size_t size : {size_t{8}, size_t{16}, counters_0_1_0, size_t{200}}) {
      Bytes out(size, 0xff);
      ASSERT_EQ(tutti_comm_get_counters(comm, out.as<tutti_comm_counters>()), TUTTI_OK);
      EXPECT_EQ(out.get<size_t>(0), size);
      if (size >= 16) {
        EXPECT_EQ(out.get<uint64_t>(8), 1u);
      }
      EXPECT_TRUE(size < 17 || out.all(16, size, 0));
      EXPECT_TRUE(out.ends_well());
    }
    for (const size_t size : {size_t{40}, explanation_0_1_0, size_t{500}}) {
      Bytes out(size, 0xff);
      ASSERT_EQ(tutti_allreduce_explain(1, TUTTI_INT8, TUTTI_SUM, comm, nullptr,
                                        out.as<tutti_explanation>()),
                TUTTI_OK);
      EXPECT_EQ(out.get<size_t>(0), size);
      EXPECT_GT(std::strlen(out.as<tutti_explanation>()->algorithm), 0u);
      EXPECT_TRUE(size <= sizeof(tutti_explanation) || out.all(sizeof(tutti_explanation), size, 0));
      EXPECT_TRUE(out.ends_well());
    }
  });
  for (const size_t size : {size_t{16}, info_0_1_0, size_t{64}}) {
    Bytes out(size, 0xff);
    ASSERT_EQ(tutti_algorithm_get(0, out.as<tutti_algorithm_info>()), TUTTI_OK);
    EXPECT_GT(std::strlen(out.get<const char*>(8)), 0u);
    EXPECT_TRUE(size <= info_0_1_0 || out.all(info_0_1_0, size, 0));
    EXPECT_TRUE(out.ends_well());
  }
}

size_t twice(size_t count, void*) { return count * sizeof(float); }
void copy_in(const float* values, size_t count, void* encoded, void*) {
  std::memcpy(encoded, values, count * sizeof(float));
}
void copy_out(const void* encoded, size_t count, float* values, void*) {
  std::memcpy(values, encoded, count * sizeof(float));
}

TEST(Sized, CodecsAndTheirErrors) {
  on_comm(2, "inproc", [](int, tutti_comm comm) {
    const float in[3] = {1, 2, 3};
    float out[3] = {};
    // Without the context; as it is; longer.
    for (const size_t size : {codec_0_1_0 - 8, codec_0_1_0, size_t{80}}) {
      Bytes codec(size);
      codec.set(8, "plain");
      codec.set(16, size_t{1});
      codec.set(24, &twice);
      codec.set(32, &copy_in);
      codec.set(40, &copy_out);
      for (const size_t error_size : {size_t{16}, codec_error_0_1_0, size_t{64}}) {
        Bytes error(error_size, 0xff);
        ASSERT_EQ(tutti_allreduce_coded_with(in, out, 3, TUTTI_SUM, codec.as<tutti_codec>(), comm,
                                             nullptr, error.as<tutti_codec_error>()),
                  TUTTI_OK)
            << sentence(comm);
        EXPECT_EQ(out[2], 6);
        EXPECT_EQ(error.get<double>(8), 0.0);
        EXPECT_TRUE(error_size <= codec_error_0_1_0 || error.all(codec_error_0_1_0, error_size, 0));
        EXPECT_TRUE(error.ends_well());
      }
    }
    Bytes none(24);  // no functions yet
    none.set(8, "plain");
    none.set(16, size_t{1});
    EXPECT_EQ(tutti_allreduce_coded(in, out, 3, TUTTI_SUM, none.as<tutti_codec>(), comm),
              TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "a function of the codec is NULL");
  });
}

}  // namespace
