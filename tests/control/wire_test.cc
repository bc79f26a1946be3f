#include "lib/control/wire.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lib/control/crc32c.h"

namespace tutti::wire {
namespace {

Header sample() {
  Header header;
  header.type = Type::data;
  header.comm = 0x1122334455667788u;
  header.epoch = 42;
  header.stream = uint64_t{1} << 40;
  header.signature.count = 1024;
  header.signature.root = -3;
  header.signature.algorithm = 7;
  header.signature.collective = Collective::broadcast;
  header.signature.dtype = TUTTI_FLOAT32;
  header.signature.op = TUTTI_MAX;
  header.signature.flags = 2;
  header.signature.level = TUTTI_LEVEL_EXACT;
  header.signature.element_size = 4000;
  header.src = 65534;
  header.digest = call_digest(42, header.signature);
  header.length = most_data_bytes;
  return header;
}

// Bytes with a checksum that fits, whatever else is wrong.
Status parse_with_checksum(HeaderBytes bytes, Header* out) {
  const uint32_t checksum = crc32c(bytes.data(), 60);
  for (size_t i = 0; i < 4; ++i) bytes[60 + i] = uint8_t(checksum >> (8 * i));
  return parse(bytes, out);
}

TEST(Wire, ParseIsTheInverseOfEncode) {
  const Header header = sample();
  Header parsed;
  ASSERT_TRUE(parse(encode(header), &parsed).ok());
  EXPECT_EQ(parsed.type, header.type);
  EXPECT_EQ(parsed.comm, header.comm);
  EXPECT_EQ(parsed.epoch, header.epoch);
  EXPECT_EQ(parsed.stream, header.stream);
  EXPECT_EQ(parsed.signature, header.signature);
  EXPECT_EQ(parsed.src, header.src);
  EXPECT_EQ(parsed.digest, header.digest);
  EXPECT_EQ(parsed.length, header.length);
  EXPECT_EQ(encode(parsed), encode(header));
}

TEST(Wire, TheChecksumIsTheCastagnoliOne) { EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u); }

TEST(Wire, EverySingleBitFlipIsCorrupt) {
  const HeaderBytes good = encode(sample());
  for (size_t bit = 0; bit < header_bytes * 8; ++bit) {
    HeaderBytes bad = good;
    bad[bit / 8] ^= uint8_t(1u << (bit % 8));
    Header parsed;
    ASSERT_EQ(parse(bad, &parsed).code(), TUTTI_CORRUPT) << "bit " << bit;
  }
}

TEST(Wire, WhatIsWrongWithAFittingChecksumIsStillRefused) {
  const HeaderBytes good = encode(sample());
  Header parsed;
  ASSERT_TRUE(parse_with_checksum(good, &parsed).ok());
  const struct {
    size_t at;
    uint8_t value;
    const char* what;
  } wrong[] = {
      {4, 2, "another version"},
      {5, 0, "type 0"},
      {5, 12, "type 12"},
  };
  for (const auto& one : wrong) {
    HeaderBytes bad = good;
    bad[one.at] = one.value;
    EXPECT_EQ(parse_with_checksum(bad, &parsed).code(), TUTTI_CORRUPT) << one.what;
  }
}

TEST(Wire, NoTypeOfFrameMayBeLongerThanItsLimit) {
  const struct {
    Type type;
    uint32_t most;
  } limits[] = {{Type::data, most_data_bytes},
                {Type::status, 0},
                {Type::bye, 0},
                {Type::abort, most_abort_bytes},
                {Type::exchange, most_exchange_bytes},
                {Type::note, most_note_bytes},
                {Type::beat, 0},
                {Type::mail, most_mail_bytes},
                {Type::early, early_bytes},
                {Type::moved, 0},
                {Type::connect, most_connect_bytes}};
  for (const auto& limit : limits) {
    Header header = sample(), parsed;
    header.type = limit.type;
    header.length = limit.most;
    EXPECT_TRUE(parse(encode(header), &parsed).ok()) << int(limit.type);
    header.length = limit.most + 1;
    EXPECT_EQ(parse(encode(header), &parsed).code(), TUTTI_CORRUPT) << int(limit.type);
    header.length = 0xffffffff;
    EXPECT_EQ(parse(encode(header), &parsed).code(), TUTTI_CORRUPT) << int(limit.type);
  }
}

Status parse_payload(const Header& header, const std::string& payload, Note* out) {
  return parse_note(header, {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()},
                    out);
}

TEST(Wire, ANoteArrivesAsItWasPosted) {
  Note note;
  note.entered = 4;
  note.epoch = 7;
  note.signature = sample().signature;
  for (note.count = 0; note.count <= Note::most_labels; ++note.count) {
    if (note.count != 0) note.all_labels[note.count - 1] = ~uint64_t{note.count};
    note.awaited = note.count % 2 == 0 ? 0 : note.count * 1000;
    Header header, parsed_header;
    const std::string payload = encode_note(note, &header);
    header.length = uint32_t(payload.size());
    ASSERT_TRUE(parse(encode(header), &parsed_header).ok());
    EXPECT_EQ(parsed_header.type, Type::note);
    Note parsed;
    ASSERT_TRUE(parse_payload(parsed_header, payload, &parsed).ok());
    EXPECT_EQ(parsed, note.empty() ? Note() : note);
  }
}

TEST(Wire, ANoteMaySayForWhomARankWaitsAndNoMore) {
  Note note;
  note.entered = note.epoch = 7;
  for (const int rank : {0, most_ranks - 1}) {
    note.awaited = uint32_t(rank + 1);
    Header header;
    const std::string payload = encode_note(note, &header);
    Note parsed;
    ASSERT_TRUE(parse_payload(header, payload, &parsed).ok());
    EXPECT_EQ(parsed, note);
    EXPECT_EQ(parsed.waits_for(), rank);
  }
}

TEST(Wire, ARefusalArrivesInItsWordsAndNoOtherBytesAreOne) {
  for (const size_t length : {1, 7, 8, 9, 119, 120, 500}) {
    Note note;
    note.entered = 7;
    note.set_refusal("\n" + std::string(length - 1, 'x'));
    EXPECT_FALSE(note.empty());
    Header header, parsed_header;
    std::string payload = encode_note(note, &header);
    header.length = uint32_t(payload.size());
    ASSERT_TRUE(parse(encode(header), &parsed_header).ok()) << length;
    Note parsed;
    ASSERT_TRUE(parse_payload(header, payload, &parsed).ok()) << length;
    EXPECT_EQ(parsed, note);
    EXPECT_EQ(parsed.refusal(), " " + std::string(std::min<size_t>(length, 120) - 1, 'x'));
    // Without a text, with words behind its end, with what a terminal obeys.
    for (const char* wrong : {"\0\0", "\0x", "\x1b["}) {
      std::string bad = payload;
      std::memcpy(bad.data() + 16, wrong, 2);
      EXPECT_EQ(parse_payload(header, bad, &parsed).code(), TUTTI_CORRUPT);
      EXPECT_TRUE(parsed.empty());
    }
    payload.append(8, '\0');
    EXPECT_EQ(parse_payload(header, payload, &parsed).code(), TUTTI_CORRUPT);
  }
}

TEST(Wire, ANoteOfARankThatCannotBeOrWithoutAWordIsCorrupt) {
  // One more than that is a refusal, here without a word.
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{most_ranks} + 1, ~uint64_t{0}}) {
    Note note;
    note.awaited = 1;
    Header header;
    std::string payload = encode_note(note, &header);
    std::memcpy(payload.data() + 8, &wrong, sizeof(wrong));
    Note parsed;
    EXPECT_EQ(parse_payload(header, payload, &parsed).code(), TUTTI_CORRUPT) << wrong;
    EXPECT_TRUE(parsed.empty());
  }
}

TEST(Wire, NotesOfImpossibleLengthsAreCorrupt) {
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{15}, size_t{17}, most_note_bytes + 8ul}) {
    Note parsed;
    EXPECT_EQ(parse_payload(sample(), std::string(bytes, 'x'), &parsed).code(), TUTTI_CORRUPT)
        << bytes;
    EXPECT_TRUE(parsed.empty());
  }
}

TEST(Wire, ANoteThatPromisesMoreLabelsThanItHoldsHasThoseThatItHolds) {
  Note note;
  note.count = ~uint32_t{0};
  EXPECT_EQ(note.labels().size(), Note::most_labels);
}

Status parse_text(const std::string& payload, Status* out) {
  return parse_status({reinterpret_cast<const uint8_t*>(payload.data()), payload.size()}, out);
}

TEST(Wire, AnErrorArrivesWithItsRankCallAndSentence) {
  Status parsed;
  ASSERT_TRUE(parse_text(encode_status({TUTTI_PEER_FAILED, "rank 3 died", 3, 17}), &parsed).ok());
  EXPECT_EQ(parsed.code(), TUTTI_PEER_FAILED);
  EXPECT_EQ(parsed.rank(), 3);
  EXPECT_EQ(parsed.call(), 17u);
  EXPECT_EQ(parsed.text(), "rank 3 died");
}

TEST(Wire, ALongSentenceIsCutAndControlCharactersAreTakenOut) {
  Status parsed;
  const std::string payload = encode_status({TUTTI_ABORTED, "\x1b[2J" + std::string(5000, 'x')});
  EXPECT_EQ(payload.size(), most_abort_bytes);
  ASSERT_TRUE(parse_text(payload, &parsed).ok());
  EXPECT_EQ(parsed.text().substr(0, 5), " [2Jx");
}

TEST(Wire, ImpossibleErrorsAreCorrupt) {
  const std::string good = encode_status({TUTTI_ABORTED, "text", 1, 2});
  Status parsed;
  EXPECT_EQ(parse_text(good.substr(0, good.size() - 1), &parsed).code(), TUTTI_CORRUPT);
  EXPECT_EQ(parse_text(good + "x", &parsed).code(), TUTTI_CORRUPT);
  EXPECT_EQ(parse_text("", &parsed).code(), TUTTI_CORRUPT);
  EXPECT_EQ(parse_text(good.substr(0, 19), &parsed).code(), TUTTI_CORRUPT);
  for (const auto& [at, value] :
       {std::pair{0, 0}, {0, 1}, {0, 13}, {3, 1}, {7, 0x80}, {6, 1}, {19, 1}}) {
    std::string bad = good;
    bad[size_t(at)] = char(value);
    EXPECT_EQ(parse_text(bad, &parsed).code(), TUTTI_CORRUPT) << at << " " << value;
  }
}

}  // namespace
}  // namespace tutti::wire
