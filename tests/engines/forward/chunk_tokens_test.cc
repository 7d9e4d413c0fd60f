// The tokens of chunks, however large: in parts, as there is room for them.
#include "engines/forward/openai/chunk_tokens.h"

#include <gtest/gtest.h>

#include "engines/forward/openai/chat_text.h"

namespace weir::forward {
namespace {

struct Wanted {
  Wanted(uint32_t max_tokens, OpenaiApi api, std::unique_ptr<msg::TokenConstraint> form = nullptr) {
    call.generation = std::make_unique<msg::Generation>();
    call.generation->constraint = std::move(form);
    call.generation->append = {1, 2};
    call.generation->max_tokens = max_tokens;
    spec.text = make_chat_text().value();
    options.api = api;
  }
  msg::Call call;
  msg::ModelSpec spec;
  Options options;
};

struct Rig final : Wanted, Attempt::Receiver {
  explicit Rig(uint32_t max_tokens = 1 << 20, OpenaiApi api = OpenaiApi::kChat) : Wanted(max_tokens, api) {}
  explicit Rig(std::unique_ptr<msg::TokenConstraint> form) : Wanted(1 << 20, OpenaiApi::kChat, std::move(form)) {}
  void on_progress() override {}
  base::Status on_part(msg::Event&& part) override {
    tokens.push_back(std::get<msg::Token>(std::move(part.what)));
    return {};
  }
  bool holds() const override { return tokens.size() >= room; }
  void on_over(Attempt::Outcome&&) override {}

  std::string text() const {
    std::vector<uint32_t> ids;
    for (const auto& token : tokens) ids.push_back(token.id);
    return spec.text->codec->decode(ids, msg::SkipSpecial::kNo);
  }
  // Hands on all of it; how many parts that were.
  int emit_all() {
    int parts = 0;
    for (; !chunks.empty(); ++parts) {
      const size_t before = tokens.size();
      EXPECT_TRUE(chunks.emit().ok());
      EXPECT_LE(tokens.size() - before, ChunkTokens::kPart);
      EXPECT_GT(tokens.size(), before);
    }
    return parts;
  }

  const Asked asked{call, spec, options, base::heap()};
  std::vector<msg::Token> tokens;
  size_t room = SIZE_MAX;
  ChunkTokens chunks{asked, *this};
};

// Notes what it is asked for.
struct NotedForm final : msg::TokenConstraint {
  NotedForm(msg::StructuredOutput::Schema schema, std::string& its_texts) : texts(its_texts) {
    wanted.kind = msg::StructuredOutput::Kind::kJsonSchema, wanted.schema = schema;
  }
  void prepare() override {}
  std::span<const uint32_t> mask() override { return {}; }
  bool accept(uint32_t id) override { return texts += char(id), true; }
  bool complete() const override { return false; }
  const msg::StructuredOutput* form() const override { return &wanted; }
  msg::StructuredOutput wanted;
  std::string& texts;
};

// The characters of a chat's text that are held against its form.
std::string held(msg::StructuredOutput::Schema schema, std::string text) {
  std::string out;
  Rig rig(std::make_unique<NotedForm>(schema, out));
  CompletionChunk chunk;
  chunk.text = std::move(text);
  EXPECT_TRUE(rig.chunks.take(chunk).ok());
  const base::Status status = rig.chunks.emit();
  return status.ok() ? out : status.text;
}

std::string repeated(std::string_view piece, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += piece;
  return out;
}

TEST(ForwardChunkTokens, ATextOfAnySizeIsHandedOnInParts) {
  for (size_t offset = 0; offset < 4; ++offset) {
    Rig rig;
    CompletionChunk chunk;
    chunk.text = std::string(offset, 'x') + repeated("\U0001f642\u4f60\u00fc", 20'000);
    const std::string text = chunk.text;
    ASSERT_TRUE(rig.chunks.take(chunk).ok());
    EXPECT_GE(rig.emit_all(), int(text.size() / ChunkTokens::kPart));
    EXPECT_TRUE(rig.text() == text);
    EXPECT_EQ(rig.tokens.back().position, 2 + text.size() - 1);
  }
}

TEST(ForwardChunkTokens, JsonMayHaveWhiteSpaceAnywhere) {
  using Schema = msg::StructuredOutput::Schema;
  EXPECT_EQ(held(Schema::kStrict, "{\n  \"a b\" : [ 1 ]\n}\n"), "{\"a b\":[1]}");
  EXPECT_EQ(held(Schema::kGuide, "{\n  \"b\": 1,\n  \"a\": 2\n}"), "") << "it is JSON";
  for (Schema schema : {Schema::kStrict, Schema::kGuide})
    EXPECT_EQ(held(schema, "no"), "its text has not the form that it was asked for");
}

TEST(ForwardChunkTokens, NoMoreIsHandedOnThanThereIsRoomFor) {
  Rig rig;
  CompletionChunk chunk;
  chunk.text = repeated("a", 100'000);
  rig.room = 0;
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  for (size_t room : {0, 1, 7, 5000}) {
    rig.room = room;
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(rig.chunks.emit().ok());
    EXPECT_EQ(rig.tokens.size(), room);
    EXPECT_FALSE(rig.chunks.empty());
  }
  rig.room = SIZE_MAX;
  rig.emit_all();
  EXPECT_EQ(rig.tokens.size(), 100'000u);
}

TEST(ForwardChunkTokens, IdsComeInPartsToo) {
  Rig rig(5000, OpenaiApi::kCompletions);
  CompletionChunk chunk;
  chunk.ids.assign(5000, 97);
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  EXPECT_EQ(rig.emit_all(), 5);
  EXPECT_EQ(rig.chunks.count(), 5000u);
  EXPECT_TRUE(rig.chunks.has_ids());
}

TEST(ForwardChunkTokens, MoreThanWasAskedForIsRefusedOnceItIsThatMuch) {
  Rig rig(1, OpenaiApi::kCompletions);
  CompletionChunk chunk;
  chunk.text = repeated("a", 1 << 20);
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  const base::Status status = rig.chunks.emit();
  EXPECT_EQ(status.code, base::Code::kInternal);
  EXPECT_EQ(rig.tokens.size(), 20u);
}

TEST(ForwardChunkTokens, TheLastLogProbabilityIsTheLastTokens) {
  Rig rig(10, OpenaiApi::kCompletions);
  rig.call.generation->logprobs = {{0, UINT32_MAX}};
  CompletionChunk chunk;
  chunk.text = "ab\u00fc";
  chunk.logprobs.resize(2);
  chunk.logprobs[1].token.logprob = -2;
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  rig.emit_all();
  ASSERT_EQ(rig.tokens.size(), 4u);
  EXPECT_EQ(rig.text(), "ab\u00fc");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(rig.tokens[i].details);
  EXPECT_EQ(rig.tokens[3].details->logprob, -2);
}

NamedLogprob named(const char* text, float logprob, std::vector<NamedToken> top = {}) {
  return {{{}, text, logprob}, std::move(top)};
}

// An origin's token is told of in front of its bytes.
TEST(ForwardChunkTokens, AChatsLogProbabilitiesNameItsTokens) {
  Rig rig;
  rig.call.generation->logprobs = {{0, UINT32_MAX}};
  rig.call.generation->top_logprobs = 2;
  CompletionChunk chunk;
  chunk.text = "<think>abc", chunk.aside = 7;
  chunk.logprobs = {named("ab", -1, {{{}, "x", -3}, {{}, "ab", -1}, {{}, "y", -4}}), named("c", -2), named("", -5)};
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  rig.emit_all();
  EXPECT_EQ(rig.text(), "<think>abc");
  std::vector<std::pair<size_t, std::vector<std::string>>> told;
  for (size_t i = 0; i < rig.tokens.size(); ++i)
    if (rig.tokens[i].details) told.emplace_back(i, rig.tokens[i].details->texts);
  EXPECT_EQ(told, (decltype(told){{7, {"ab", "ab", "x"}}, {10, {"c"}}, {12, {""}}}));
  EXPECT_EQ(rig.tokens[7].details->top.size(), 2u);
  EXPECT_EQ(rig.tokens[7].details->top[1].logprob, -3);
}

TEST(ForwardChunkTokens, LogProbabilitiesOfOtherTextsGoInFrontOfAll) {
  Rig rig;
  rig.call.generation->logprobs = {{0, UINT32_MAX}};
  CompletionChunk chunk;
  chunk.text = "abc";
  chunk.logprobs = {named("abcd", -1), named("e", -2)};
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  rig.emit_all();
  EXPECT_EQ(rig.text(), "abc");
  EXPECT_TRUE(rig.tokens[0].details && rig.tokens[1].details && !rig.tokens[2].details);
  chunk = {};
  chunk.logprobs = {named("f", -1)};  // a token whose text comes later
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  rig.emit_all();
  EXPECT_EQ(rig.tokens.size(), 6u);
}

TEST(ForwardChunkTokens, LogProbabilitiesThatNobodyAskedForAreLeftOut) {
  Rig rig;
  CompletionChunk chunk;
  chunk.text = "a";
  chunk.logprobs = {named("a", -1)};
  ASSERT_TRUE(rig.chunks.take(chunk).ok());
  rig.emit_all();
  EXPECT_EQ(rig.tokens.size(), 1u);
}

// Each is a token, so that an answer has no more of them than of text.
TEST(ForwardChunkTokens, LogProbabilitiesCountAsTokens) {
  Rig rig(1);
  rig.call.generation->logprobs = {{0, UINT32_MAX}};
  const size_t most = rig.chunks.most_ids();
  base::Status status;
  while (status.ok() && rig.tokens.size() <= most) {
    CompletionChunk chunk;
    chunk.logprobs.assign(1000, named("", -1));
    ASSERT_TRUE(rig.chunks.take(chunk).ok());
    while (status.ok() && !rig.chunks.empty()) status = rig.chunks.emit();
  }
  EXPECT_EQ(status.code, base::Code::kInternal);
  EXPECT_EQ(rig.tokens.size(), most);
}

}  // namespace
}  // namespace weir::forward
