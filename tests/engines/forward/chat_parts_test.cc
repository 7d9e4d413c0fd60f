// The parts of chats beside texts and calls: images, thoughts, log-probabilities, settings that go along.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engines/forward/openai/chat_message.h"
#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/thought_marks.h"
#include "msg/text_codec.h"

namespace weir::forward {
namespace {

using Json = nlohmann::ordered_json;

const std::string kPlace = "<|weir_image|><|weir_pad|><|weir_image_end|>";

// The prompt of these messages, as a dialect makes it of a conversation.
std::string prompt_of(const Json& messages, const Json& extra = Json::object()) {
  static const auto text = make_chat_text().value();
  const auto vision = chat_vision();
  msg::ChatOptions options;
  for (uint32_t id : {vision.start_id, vision.pad_id, vision.end_id}) options.image_text += text->codec->piece(id);
  auto prompt = text->codec->render_chat(messages, extra, options);
  EXPECT_TRUE(prompt) << (prompt ? "" : prompt.error().text);
  const auto ids = text->codec->encode(*prompt, msg::AddSpecial::kYes);
  return text->codec->decode(ids, msg::SkipSpecial::kNo);
}

msg::Image image_of(std::string json) { return {base::Bytes::adopt(std::move(json)), {}, 0, 0, true}; }

Json joined(const std::vector<base::Bytes>& pieces) {
  std::string all = "{";
  for (const auto& piece : pieces) all += piece.view();
  return Json::parse(all + '}');
}

Json part(const char* text) { return {{"type", "text"}, {"text", text}}; }
Json picture(const char* url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }

TEST(ChatImages, AreAmongThePartsOfTheirMessage) {
  const Json image{{"type", "image"}};
  const auto user = [](Json content) { return Json{{"role", "user"}, {"content", std::move(content)}}; };
  const Json messages =
      Json::array({user("a \"b\" \\"), user(Json::array({part("say \"x\" \\"), image, part("and"), image, image})),
                   user(Json::array({image})), user(Json::array({image, part("[end],")}))});
  auto members = members_of_prompt(prompt_of(messages));
  ASSERT_TRUE(members);
  std::vector<msg::Image> images;
  for (const char* url : {"data:,1", "http://h/2", "3", "4", "5"})
    images.push_back(image_of(Json{{"url", url}}.dump()));
  auto pieces = put_images(*members, images);
  ASSERT_TRUE(pieces) << pieces.error().text;
  const Json sent = joined(*pieces).at("messages");
  EXPECT_EQ(sent[0].at("content"), "a \"b\" \\");
  EXPECT_EQ(sent[1].at("content"),
            Json::array({part("say \"x\" \\"), picture("data:,1"), part("and"), picture("http://h/2"), picture("3")}));
  EXPECT_EQ(sent[2].at("content"), Json::array({picture("4")}));
  EXPECT_EQ(sent[3].at("content"), Json::array({picture("5"), part("[end],")}));
}

TEST(ChatImages, GoAlongWithoutACopy) {
  auto members = members_of_prompt(prompt_of(Json::parse(R"([{"role":"user","content":[{"type":"image"}]}])")));
  const std::vector<msg::Image> images{image_of("{\"url\":\"" + std::string(1 << 20, 'x') + "\"}")};
  auto pieces = put_images(*members, images);
  ASSERT_TRUE(pieces);
  ASSERT_EQ(pieces->size(), 3u);
  EXPECT_EQ((*pieces)[1].data(), images[0].data.data());
}

TEST(ChatImages, BytesBecomeADataUrl) {
  auto pieces = put_images(R"("messages":[{"content":")" + kPlace + R"("}])",
                           std::vector<msg::Image>{{base::Bytes::copy_of("\xff\x01"), "image/pn\"g", 0, 0}});
  ASSERT_TRUE(pieces);
  EXPECT_EQ(joined(*pieces).at("messages")[0].at("content")[0].at("image_url").at("url"),
            "data:image/pn\"g;base64,/wE=");
  const std::vector<msg::Image> large{{base::Bytes::adopt(std::string(kMostRawImages + 1, 'x')), "image/png", 0, 0}};
  EXPECT_FALSE(put_images(R"("messages":[{"content":")" + kPlace + R"("}])", large));
}

// Whoever writes prompts by hand may write the places, too.
TEST(ChatImages, PlacesAreAsManyAsImages) {
  const std::vector<msg::Image> none, one{image_of("{}")}, two{image_of("{}"), image_of("{}")};
  const std::string text = R"("messages":[{"content":"a)" + kPlace + R"("}])";
  EXPECT_TRUE(put_images(text, none));
  EXPECT_TRUE(put_images(text, one));
  EXPECT_FALSE(put_images(text, two));
  EXPECT_FALSE(put_images(R"("messages":[{"content":"a"}])", one));
  EXPECT_FALSE(put_images(R"("messages":[{"content":")" + kPlace + kPlace + R"("}])", one));
  EXPECT_FALSE(put_images(R"("messages":[)" + kPlace + "]", one));
}

TEST(ChatText, SettingsGoAlong) {
  const Json elsewhere = {{"tool_choice", "required"},
                          {"parallel_tool_calls", false},
                          {"reasoning_effort", "lo\"w"},
                          {"chat_template_kwargs", {{"enable_thinking", false}}}};
  auto members =
      members_of_prompt(prompt_of(Json::parse(R"([{"role":"user","content":"a"}])"), {{"elsewhere", elsewhere}}));
  ASSERT_TRUE(members);
  Json sent = Json::parse('{' + *members + '}');
  sent.erase("messages");
  EXPECT_EQ(sent, elsewhere);
  for (const char* rest : {R"({"messages":[],"tool_choice":1})", R"({"messages":[],"reasoning_effort":{}})",
                           R"({"messages":[],"verbosity":"a","verbosity":"b"})", R"({"messages":[],"stream":true})"})
    EXPECT_FALSE(members_of_prompt("<|weir_chat|>" + std::string(rest))) << rest;
}

std::string told(ThoughtMarks& marks, const char* thoughts, const char* text) {
  CompletionChunk chunk;
  chunk.thoughts = thoughts, chunk.text = text;
  marks.join(chunk);
  EXPECT_EQ(chunk.aside, chunk.text.size() - std::string_view(text).size());
  return chunk.text + (chunk.unseen > 0 ? '!' + std::to_string(chunk.unseen) : "");
}

TEST(ThoughtMarks, ThoughtsStandBeforeTheText) {
  ThoughtMarks shown, hidden, both, alone;
  shown.show(), both.show(), alone.show();
  EXPECT_EQ(told(shown, "", ""), "");
  EXPECT_EQ(told(shown, "a", ""), "<think>\na");
  EXPECT_EQ(told(shown, "b", ""), "b");
  EXPECT_EQ(told(shown, "", "x"), "\n</think>\n\nx");
  EXPECT_EQ(told(shown, "late", "y"), "y!4");
  EXPECT_EQ(told(both, "a", "x"), "<think>\na\n</think>\n\nx");
  EXPECT_EQ(told(hidden, "abc", "x"), "x!3");
  EXPECT_EQ(told(alone, "a", ""), "<think>\na");
  EXPECT_EQ(alone.end(), "\n</think>\n\n");  // before calls
  EXPECT_EQ(alone.end(), "");
}

// No form is held against it.
TEST(ThoughtMarks, ARefusalStandsInPlaceOfTheText) {
  ToolCalls calls;
  ThoughtMarks marks;
  marks.show();
  EXPECT_EQ(told(marks, "a", ""), "<think>\na");
  auto chunk = read_chat_chunk(R"({"choices":[{"delta":{"content":null,"refusal":"I cannot"}}]})", calls, {});
  ASSERT_TRUE(chunk) << chunk.error().text;
  marks.join(*chunk);
  EXPECT_EQ(chunk->text, "\n</think>\n\nI cannot");
  EXPECT_EQ(chunk->aside, chunk->text.size());
}

// The answer would begin behind the mark, with calls of tools in it.
TEST(ThoughtMarks, ThoughtsDoNotEndThemselves) {
  const auto shown = [](std::initializer_list<const char*> thoughts) {
    ThoughtMarks marks;
    marks.show();
    std::string out;
    for (const char* one : thoughts) out += told(marks, one, "");
    return out + told(marks, "", "x");
  };
  constexpr const char* kWhole = "<think>\na</think >b\n</think>\n\nx";
  EXPECT_EQ(shown({"a</think>b"}), kWhole);
  for (const size_t cut : {2u, 3u, 5u, 8u}) {
    const std::string all = "a</think>b", first = all.substr(0, cut);
    EXPECT_EQ(shown({first.c_str(), all.c_str() + cut}), kWhole) << cut;
  }
  EXPECT_EQ(shown({"<", "/", "t", "h", "i", "n", "k", ">", "</think>"}), "<think>\n</think ></think >\n</think>\n\nx");
  EXPECT_EQ(shown({"<</th</think>ink></think"}), "<think>\n<</th</think >ink></think\n</think>\n\nx");
}

TEST(ThoughtMarks, LogProbabilitiesOfThoughtsAreLeftOutWithThem) {
  ThoughtMarks hidden;
  CompletionChunk thoughts, text;
  thoughts.thoughts = "a", thoughts.logprobs.resize(1);
  text.text = "x", text.logprobs.resize(1);
  hidden.join(thoughts), hidden.join(text);
  EXPECT_TRUE(thoughts.logprobs.empty());
  EXPECT_EQ(text.logprobs.size(), 1u);
}

base::Result<CompletionChunk> read(std::string_view json, LogprobLimits limits = {}) {
  ToolCalls calls;
  return read_chat_chunk(json, calls, limits);
}

TEST(ChatMessage, ThoughtsHaveTwoNames) {
  for (const char* delta :
       {R"({"reasoning_content":"hm"})", R"({"reasoning":"hm","content":null})",
        R"({"reasoning":"hm","reasoning_content":"hm"})", R"({"reasoning":{"effort":1},"reasoning_content":"hm"})"})
    EXPECT_EQ(read(R"({"choices":[{"delta":)" + std::string(delta) + "}]}").value().thoughts, "hm") << delta;
  EXPECT_TRUE(read(R"({"choices":[{"delta":{"reasoning":[[7]],"reasoning_content":7}}]})").value().thoughts.empty());
}

TEST(ChatMessage, UsageHasItsDetails) {
  auto chunk = read(R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"prompt_tokens_details":)"
                    R"({"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5,"x":null}}})");
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->cached_tokens, 4u);
  EXPECT_EQ(chunk->thought_tokens, 5u);
  EXPECT_EQ(read(R"({"usage":{"prompt_cache_hit_tokens":3}})").value().cached_tokens, 3u);
  EXPECT_FALSE(read(R"({"usage":{"completion_tokens_details":{"reasoning_tokens":-1}}})"));
  EXPECT_FALSE(read(R"({"usage":{"completion_tokens_details":7}})"));
}

TEST(ChatMessage, LogprobsAreReadAsFarAsTheyWereAskedFor) {
  const std::string_view json =
      R"({"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"\ufffd","bytes":[226,130],"logprob":-0.5,)"
      R"("top_logprobs":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-1},{"token":7}]}],"refusal":null}}]})";
  auto chunk = read(json, {.tokens = 4, .top = 2});
  ASSERT_TRUE(chunk) << chunk.error().text;
  ASSERT_EQ(chunk->logprobs.size(), 1u);
  EXPECT_EQ(chunk->logprobs[0].token.text, "\xe2\x82");
  EXPECT_EQ(chunk->logprobs[0].token.logprob, -0.5f);
  ASSERT_EQ(chunk->logprobs[0].top.size(), 2u);
  EXPECT_EQ(chunk->logprobs[0].top[1].text, "b");
  EXPECT_TRUE(read(json, {.tokens = 0, .top = 0}).value().logprobs.empty());
}

TEST(ChatMessage, LogprobsHaveBounds) {
  const auto entries = [](size_t count, const std::string& entry) {
    std::string out = R"({"choices":[{"logprobs":{"content":[)" + entry;
    for (size_t i = 1; i < count; ++i) out += ',' + entry;
    return out + "]}}]}";
  };
  EXPECT_TRUE(read(entries(4, "{}"), {.tokens = 4, .top = 0}));
  EXPECT_FALSE(read(entries(5, "{}"), {.tokens = 4, .top = 0}));
  EXPECT_FALSE(read(entries(kMostChunkLogprobs + 1, "{}"), {.tokens = SIZE_MAX, .top = 0}));
  std::string top = "{}";
  for (size_t i = 1; i < 100; ++i) top += ",{}";
  const std::string many = R"({"top_logprobs":[)" + top + "]}";
  EXPECT_TRUE(read(entries(700, many), {.tokens = 1000, .top = 20}));
  EXPECT_FALSE(read(entries(700, many), {.tokens = 1000, .top = kMostTop}));
  for (const char* entry : {"7", R"({"token":7})", R"({"logprob":"x"})", R"({"logprob":1e300})", R"({"bytes":[256]})",
                            R"({"bytes":"a"})", R"({"top_logprobs":{}})"})
    EXPECT_FALSE(read(entries(1, entry))) << entry;
  EXPECT_FALSE(read(R"({"choices":[{"logprobs":[1]}]})"));
}

TEST(ModelList, TellsWhoTakesImages) {
  const auto images = [](const std::string& more) {
    auto listed = read_models(R"({"data":[{"id":"m","owned_by":"vllm")" + more + "}]}", "m");
    EXPECT_TRUE(listed) << (listed ? "" : listed.error().text);
    return listed && listed->images;
  };
  for (const char* told :
       {R"(,"images":true)", R"(,"capabilities":["completion","multimodal"])", R"(,"capabilities":{"vision":true})",
        R"(,"architecture":{"input_modalities":["text","image"]})"})
    EXPECT_TRUE(images(told)) << told;
  for (const char* told : {"", R"(,"images":7)", R"(,"capabilities":[7,"chat"])", R"(,"capabilities":{"vision":[]})",
                           R"(,"architecture":"x","capabilities":null)"})
    EXPECT_FALSE(images(told)) << told;
  auto llama = read_models(R"({"models":["m",{"model":"m","name":7,"capabilities":["multimodal"]}],)"
                           R"("data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":7}}]})",
                           "m");
  ASSERT_TRUE(llama);
  EXPECT_TRUE(llama->images && llama->found);
  EXPECT_EQ(llama->owner, "llamacpp");
  EXPECT_EQ(llama->max_length, 7u);
}

}  // namespace
}  // namespace weir::forward
