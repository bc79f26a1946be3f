#include "lib/control/callback_exchange.h"

#include <algorithm>
#include <cstring>

#include "lib/control/bytes.h"
#include "lib/control/secret.h"

namespace tutti {

namespace {

constexpr uint32_t too_long = 0xffffffff;
constexpr size_t length_bytes = 4;
constexpr size_t room = callback_block_bytes - length_bytes;  // for the text

class CallbackExchange final : public Exchange {
 public:
  CallbackExchange(tutti_allgather_fn allgather, void* context, int rank, int nranks)
      : allgather_(allgather), context_(context), rank_(rank), nranks_(nranks) {}

  int rank() const override { return rank_; }
  int nranks() const override { return nranks_; }
  const JobKey& key() const override { return key_; }

  Status allgather(std::string_view mine, uint64_t, std::vector<std::string>* all) override {
    std::string block(length_bytes, '\0'), blocks;
    put_le<uint32_t>(reinterpret_cast<uint8_t*>(block.data()),
                     mine.size() > most_text_bytes ? too_long : uint32_t(mine.size()));
    block += mine.substr(0, room);
    block.resize(callback_block_bytes);
    TUTTI_TRY(gather(block, &blocks));
    std::vector<uint32_t> lengths;
    for (int rank = 0; rank < nranks_; ++rank) {
      lengths.push_back(length_of(blocks, rank));
      if (lengths.back() > most_text_bytes) {
        return {TUTTI_INVALID,
                rank_name(rank) +
                    " has too much to say, or the "
                    "all-gather callback mixes up its blocks",
                rank};
      }
    }
    size_t stride = callback_block_bytes, begin = length_bytes;
    const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
    if (longest > room) {
      block = mine;
      block.resize(longest);
      TUTTI_TRY(gather(block, &blocks));
      stride = longest;
      begin = 0;
    }
    all->clear();
    for (size_t rank = 0; rank < size_t(nranks_); ++rank)
      all->push_back(blocks.substr(rank * stride + begin, lengths[rank]));
    if ((*all)[size_t(rank_)] != mine) {
      return {TUTTI_INVALID,
              "the all-gather callback did not put rank " + std::to_string(rank_) +
                  "'s block at its place",
              rank_};
    }
    return {};
  }

  Status agree_on_key() {
    JobKey mine{};
    if (rank_ == 0) TUTTI_TRY(random_bytes(mine));
    std::vector<std::string> all;
    TUTTI_TRY(allgather({reinterpret_cast<const char*>(mine.data()), mine.size()}, 0, &all));
    if (all[0].size() != key_.size()) {
      return {TUTTI_MISMATCH, "rank 0 did not pass a key through the all-gather callback", 0};
    }
    std::memcpy(key_.data(), all[0].data(), key_.size());
    return {};
  }

 private:
  static uint32_t length_of(const std::string& blocks, int rank) {
    return get_le<uint32_t>(reinterpret_cast<const uint8_t*>(blocks.data()) +
                            callback_block_bytes * size_t(rank));
  }

  Status gather(std::string_view mine, std::string* all) {
    all->assign(mine.size() * size_t(nranks_), '\0');
    const int failed = call_back("all-gather callback", [&] {
      return allgather_(mine.data(), all->data(), mine.size(), context_);
    });
    if (failed == 0) return {};
    return {TUTTI_SYSTEM, "the all-gather callback returned " + std::to_string(failed)};
  }

  tutti_allgather_fn allgather_;
  void* context_;
  int rank_, nranks_;
  JobKey key_{};
};

}  // namespace

Status make_callback_exchange(tutti_allgather_fn allgather, void* context, int rank, int nranks,
                              std::unique_ptr<Exchange>* out) {
  auto made = std::make_unique<CallbackExchange>(allgather, context, rank, nranks);
  TUTTI_TRY(made->agree_on_key());
  *out = std::move(made);
  return {};
}

}  // namespace tutti
