#include "session/session_state.h"

#include <gtest/gtest.h>

namespace weir::session {
namespace {

SessionState example() {
  SessionState state;
  state.tenant = "key a\nb c", state.model = "a model", state.version = "1", state.vocabulary = 1000;
  state.age = std::chrono::seconds(77);
  state.tokens = {0, 1, 2, 3, 999, 5};
  state.images.push_back({base::Bytes::copy_of("bytes\nof one"), "image/png", 1, 3});
  state.images.push_back({base::Bytes::copy_of("x"), "image/jpeg", 3, 6});
  return state;
}

TEST(SessionState, IsReadAsItWasWritten) {
  const SessionState state = example();
  auto read = read_state(write_state(state));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->tenant, state.tenant);
  EXPECT_EQ(read->model, state.model);
  EXPECT_EQ(read->version, "1");
  EXPECT_EQ(read->vocabulary, 1000u);
  EXPECT_EQ(read->age, std::chrono::seconds(77));
  EXPECT_EQ(read->tokens, state.tokens);
  ASSERT_EQ(read->images.size(), 2u);
  EXPECT_EQ(read->images[0].data.view(), "bytes\nof one");
  EXPECT_EQ(read->images[0].mime, "image/png");
  EXPECT_EQ(read->images[1].start, 3u);
  EXPECT_EQ(read->images[1].end, 6u);
  EXPECT_EQ(read->unkept, 0u);
}

TEST(SessionState, EveryCutIsRefusedByName) {
  const std::string whole = write_state(example());
  for (size_t size = 0; size < whole.size(); ++size) {
    auto read = read_state(whole.substr(0, size));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, base::Code::kDataLoss);
    EXPECT_NE(read.error().text.find("what was kept of the session"), std::string::npos);
  }
  EXPECT_FALSE(read_state(whole + "x"));
}

TEST(SessionState, AnyOtherByteIsReadOrRefusedAndNeverBelieved) {
  const std::string whole = write_state(example());
  for (size_t at = 0; at < whole.size(); ++at)
    for (char byte : {'\0', '\n', ' ', '9', '\xff'}) {
      std::string bad = whole;
      bad[at] = byte;
      auto read = read_state(bad);
      if (!read) continue;
      for (uint32_t token : read->tokens) EXPECT_LT(token, read->vocabulary);
      for (const auto& image : read->images) EXPECT_LE(image.end, read->tokens.size());
    }
}

TEST(SessionState, NumbersThatLieCostNothing) {
  const std::string head = "weir-tokens 1\ntenant t\nmodel m 1\nvocabulary 9\nage 0\n";
  for (const char* rest :
       {"tokens 99999999999\nimages 0\n\n", "tokens 125000\nimages 0\n\n", "tokens 0\nimages 1024\n\n",
        "tokens 1\nimages 0\n\n\x09\0\0\0", "tokens -1\nimages 0\n\n", "unkept 0\n", "unkept 5\nx"})
    EXPECT_FALSE(read_state(head + rest)) << rest;
  EXPECT_TRUE(read_state(head + "tokens 0\nimages 0\n\n"));
}

TEST(SessionState, OneThatIsTooLongSaysSo) {
  SessionState state = example();
  state.tokens.assign(SessionState::kLargest, 7);
  const std::string text = write_state(state);
  EXPECT_LT(text.size(), 200u);
  auto read = read_state(text);
  ASSERT_TRUE(read);
  EXPECT_GT(read->unkept, SessionState::kLargest);
  EXPECT_TRUE(read->tokens.empty());
  EXPECT_FALSE(read_state(std::string(SessionState::kLargest + 1, 'x')));
}

}  // namespace
}  // namespace weir::session
