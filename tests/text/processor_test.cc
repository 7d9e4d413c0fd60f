#include "text/processor.h"

#include <algorithm>

#include "base/overload.h"
#include "support/cpu_time.h"
#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

using Json = nlohmann::ordered_json;

std::string tokenizer_with(std::vector<std::string> specials) {
  tokenizers::Json file = tokenizers::byte_level_file({});
  uint32_t id = 300;
  for (const auto& content : specials)
    file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", true}});
  return file.dump();
}

std::shared_ptr<const Processor> a_processor(std::vector<std::string> specials, std::string config = {},
                                             std::string jinja = {}) {
  auto out = make_processor(tokenizer_with(std::move(specials)), config, jinja);
  EXPECT_TRUE(out) << out.error().text;
  return out ? *out : nullptr;
}

std::string chat(const Processor& p, const Json& messages, const Json& extra = Json::object(),
                 const msg::ChatOptions& options = {}) {
  auto out = p.render_chat(messages, extra, options);
  return out ? *out : "fault: " + out.error().text;
}

const Json kHello = Json::parse(R"([{"role": "user", "content": "hi"}])");

TEST(Processor, ChatmlAndLlama3AreKnownByTheirTokens) {
  EXPECT_EQ(chat(*a_processor({"<|im_start|>", "<|im_end|>"}), kHello),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  auto llama3 = a_processor({"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  EXPECT_EQ(chat(*llama3, kHello),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(llama3->eos, "<|eot_id|>");
  EXPECT_EQ(a_processor({})->chat, nullptr);
  EXPECT_EQ(chat(*a_processor({}), kHello), "fault: the model has no chat template");
}

TEST(Processor, TheConfigsTemplateIsTakenAndItsOwnFileBeforeIt) {
  std::string config = R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
                           "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}"})";
  auto p = a_processor({"<|im_start|>"}, config);
  EXPECT_EQ(p->bos, "<s>");
  EXPECT_EQ(p->eos, "</s>");
  EXPECT_EQ(p->pad, "");
  EXPECT_EQ(chat(*p, kHello), "<s>hiTrue");
  EXPECT_EQ(chat(*a_processor({}, config, "own {{ eos_token }}"), kHello), "own </s>");
  config = R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})";
  EXPECT_EQ(chat(*a_processor({}, config), kHello), "d");
}

TEST(Processor, AConfigOfValuesNestedDeeplyIsRefused) {
  constexpr size_t kLevels = 1'000'000;
  const std::string deep = std::string(kLevels, '[') + std::string(kLevels, ']');
  for (const std::string& config :
       {"{\"tokenizer_class\":" + deep + "}", "{\"chat_template\":[{\"name\":" + deep + "}]}"}) {
    auto out = make_processor(tokenizer_with({}), config, "");
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().text, "tokenizer_config.json is nested deeper than 64 levels");
  }
}

TEST(Processor, ANamedTemplateIsTakenWhereToolsAreGiven) {
  const std::string named = R"({"chat_template": [{"name": "tool_use", "template": "<tool_call> {{ tools | length }}"},
                                                  {"name": "rag", "template": "r"},
                                                  {"name": "default", "template": "d"}]})";
  auto p = a_processor({}, named);
  EXPECT_EQ(p->format.tools, msg::ToolFormat::kHermes);
  EXPECT_EQ(chat(*p, kHello), "d");
  EXPECT_EQ(chat(*p, kHello, {{"tools", nullptr}}), "d");
  EXPECT_EQ(chat(*p, kHello, {{"tools", Json::array()}}), "d");
  EXPECT_EQ(chat(*p, kHello, {{"tools", {{{"type", "function"}}}}}), "<tool_call> 1");
  EXPECT_EQ(chat(*a_processor({}, named, "own"), kHello, {{"tools", {{{"type", "function"}}}}}), "own");
  auto wrong = make_processor(
      tokenizer_with({}),
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "{% x"}]})", "");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text.find("tool_use"), std::string::npos) << wrong.error().text;
}

TEST(Processor, TheConfigDecidesOnMarkersWhereTheClassLetsIt) {
  auto ids = [](std::string config) {
    return a_processor({"<s>", "</s>"}, R"({"bos_token": "<s>", "eos_token": "</s>")" + config + "}")
        ->encode("", msg::AddSpecial::kYes);
  };
  const uint32_t bos = 300, eos = 301;
  using Ids = std::vector<uint32_t>;
  EXPECT_EQ(ids(""), Ids{}) << "the post_processor of tokenizer.json, which is not there";
  EXPECT_EQ(ids(R"(, "tokenizer_class": "LlamaTokenizer")"), Ids{bos});
  EXPECT_EQ(ids(R"(, "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false)"), Ids{});
  EXPECT_EQ(ids(R"(, "tokenizer_class": "GemmaTokenizer", "add_eos_token": true)"), (Ids{bos, eos}));
  EXPECT_EQ(ids(R"(, "add_bos_token": true, "add_eos_token": true)"), (Ids{bos, eos}));
  EXPECT_EQ(ids(R"(, "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true)"), Ids{});
  EXPECT_EQ(ids(R"(, "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true)"), Ids{});
  auto none = a_processor({"<s>"}, R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>"})");
  EXPECT_EQ(none->encode("", msg::AddSpecial::kNo), Ids{});
}

TEST(Processor, AFileThatIsWrongIsNamed) {
  auto fault = [](std::string config, std::string jinja = {}) {
    auto out = make_processor(tokenizer_with({}), config, jinja);
    return out ? std::string("none") : out.error().text;
  };
  EXPECT_TRUE(fault("[]").starts_with("tokenizer_config.json: "));
  EXPECT_TRUE(fault(R"({"bos_token": 1})").starts_with("tokenizer_config.json: bos_token"));
  EXPECT_TRUE(fault(R"({"add_bos_token": 1})").starts_with("tokenizer_config.json: add_bos_token is neither"));
  EXPECT_TRUE(fault(R"({"add_bos_token": true, "bos_token": "<none>"})").ends_with("the vocabulary has no '<none>'"));
  EXPECT_TRUE(fault(R"({"chat_template": 1})").starts_with("tokenizer_config.json: chat_template"));
  EXPECT_TRUE(fault(R"({"chat_template": "{% if"})").starts_with("tokenizer_config.json: the chat template, line 1"));
  EXPECT_TRUE(fault("", "{% if").starts_with("chat_template.jinja: the chat template, line 1"));
  EXPECT_TRUE(make_processor("{", "", "").error().text.starts_with("tokenizer.json: "));
}

TEST(Processor, PartsOfContentAreJoinedAndImagesBecomeTheirText) {
  auto p = a_processor({"<|im_start|>"}, "", "{{ messages[0].content }}");
  Json messages = Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "a "},
    {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": " b"}]}])");
  msg::ChatOptions options;
  EXPECT_EQ(chat(*p, messages), "fault: messages[0].content[1] is an image, which this model does not take");
  options.image_text = "<img>";
  EXPECT_EQ(chat(*p, messages, Json::object(), options), "a <img> b");
}

TEST(Processor, MessagesThatAreWrongAreNamed) {
  auto p = a_processor({"<|im_start|>"});
  EXPECT_EQ(chat(*p, Json::array()), "fault: messages: expected a list with at least one message");
  EXPECT_EQ(chat(*p, Json::parse("[1]")), "fault: messages[0] is not an object");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"content": "x"}])")), "fault: messages[0].role is not a string");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"role": "user", "content": 1}])")),
            "fault: messages[0].content is neither a string nor a list of parts");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"role": "user", "content": [{"type": "text"}]}])")),
            "fault: messages[0].content[0].text is not a string");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"role": "user", "content": [{"type": "audio"}]}])")),
            "fault: messages[0].content[0].type is not a type of content that this model takes: text");
}

TEST(Processor, ArgumentsOfToolCallsAreValues) {
  auto p =
      a_processor({}, "", "{{ messages[0].tool_calls[0].function.arguments.city }}{{ messages[0].content is none }}");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"role": "assistant", "tool_calls": [{"type": "function", "function":
              {"name": "f", "arguments": "{\"city\": \"Ulm\"}"}}]}])")),
            "UlmTrue");
}

TEST(Processor, ATemplateThatNamesDevelopersKnowsThem) {
  EXPECT_TRUE(a_processor({}, "", "{% if messages[0].role == 'developer' %}x{% endif %}")->knows_developers());
  EXPECT_TRUE(a_processor({}, "", "{% if messages[0].role in [\"developer\"] %}x{% endif %}")->knows_developers());
  EXPECT_FALSE(a_processor({}, "", "made by a developer: {{ messages[0].role }}")->knows_developers());
  EXPECT_FALSE(a_processor({"<|im_start|>"})->knows_developers());
}

TEST(Processor, ToolsKeepTheOrderOfTheirKeys) {
  auto p = a_processor({}, "", "{{ tools[0] | tojson }}");
  auto extra = Json::parse(R"({"tools": [{"type": "function", "b": 1, "a": 2}]})");
  auto out = p->render_chat(kHello, extra, {});
  EXPECT_EQ(*out, R"({"type": "function", "b": 1, "a": 2})");
}

TEST(Processor, TheFinalMessageIsContinued) {
  auto p = a_processor({"<|im_start|>"});
  Json messages = Json::parse(R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Once upon "}])");
  msg::ChatOptions options{.add_generation_prompt = false, .continue_final_message = true, .image_text = {}};
  EXPECT_EQ(chat(*p, messages, Json::object(), options),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nOnce upon ");
  options.add_generation_prompt = true;
  EXPECT_TRUE(chat(*p, messages, Json::object(), options).starts_with("fault: add_generation_prompt"));
}

TEST(Processor, ExtraVariablesReachTheTemplateButNotTheMessages) {
  auto p = a_processor({}, "", "{{ enable_thinking }} {{ messages[0].content }}");
  EXPECT_EQ(chat(*p, kHello, {{"enable_thinking", false}, {"messages", "mine"}}), "False hi");
}

// --- arguments of tool calls -----------------------------------------------------------------------------------------

Json calling(const std::string& arguments) {
  Json call = {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
  return Json::array({{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call})}}});
}
std::string keys(size_t n) {
  std::string out = "{";
  for (size_t i = 0; i < n; ++i) out += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  return out + "}";
}
// Many small objects, as far as the bound of one goes.
std::string objects(size_t members) {
  std::string out = "{\"a\":[";
  for (size_t i = 0; i < members; i += kMostMembers) out += (i ? "," : "") + keys(kMostMembers);
  return out + "]}";
}
const char* const kShow = "{{ messages[0].tool_calls[0].function.arguments | length }}";

std::string shown(const Processor& p, const std::string& arguments) {
  auto out = p.render_chat(calling(arguments), Json::object(), {});
  return out ? *out : out.error().text;
}

TEST(ToolArguments, AreBoundedInMembersDepthAndBytes) {
  auto p = a_processor({}, {}, kShow);
  EXPECT_EQ(shown(*p, keys(kMostMembers)), "512");
  const std::string where = "messages[0].tool_calls[0].function.arguments: ";
  EXPECT_EQ(shown(*p, keys(kMostMembers + 1)),
            where + "an object with more than 512 members, or nested deeper than 100 levels");
  auto deep = [](size_t n) { return "{\"a\":" + std::string(n - 1, '[') + std::string(n - 1, ']') + "}"; };
  EXPECT_EQ(shown(*p, deep(kDeepestArguments)), "1");
  EXPECT_NE(shown(*p, deep(kDeepestArguments + 1)).find("nested deeper than 100 levels"), std::string::npos);
  auto wide = [](size_t n) { return "{\"a\":\"" + std::string(n - 8, 'x') + "\"}"; };
  EXPECT_EQ(shown(*p, wide(kMostArguments)), "1");
  EXPECT_EQ(shown(*p, wide(kMostArguments + 1)), where + "1048577 bytes; expected at most 1048576");
}

TEST(ToolArguments, OfACallWithoutAnyAreAnEmptyObject) {
  auto p = a_processor({}, {}, "{{ messages[0].tool_calls[0].function.arguments | tojson }}");
  EXPECT_EQ(shown(*p, ""), "{}");
  EXPECT_EQ(shown(*p, " \n"), "{}");
  EXPECT_EQ(shown(*p, "{}"), "{}");
}

TEST(ToolArguments, ThatAreNoObjectStayText) {
  auto p = a_processor({}, {}, kShow);
  EXPECT_EQ(shown(*p, std::string(2000, ':')), "2000");
  EXPECT_EQ(shown(*p, std::string(200'000, '[')), "200000");
}

TEST(ToolArguments, TakeTimeInProportion) {
  auto p = a_processor({}, {}, "x");
  for (auto make : {objects, +[](size_t n) { return keys(std::min(n, kMostMembers)) + std::string(n, ' '); },
                    +[](size_t n) { return "{" + std::string(10 * n, '"') + "}"; }}) {
    auto once = [&](size_t n) {
      auto messages = calling(make(n));
      return support::cpu_of([&] { (void)p->render_chat(messages, Json::object(), {}); });
    };
    double grew = 1e9;
    for (int i = 0; i < 8 && grew > 2.5; ++i) grew = std::min(grew, once(40'000) / once(20'000));
    EXPECT_LE(grew, 2.5);
  }
}

TEST(Processor, ATextIsChargedWhileItIsMadeAndThenByItsLength) {
  base::MemoryLedger ledger(uint64_t(64) << 20);
  base::SteppedCharge charge(&ledger, base::MemoryKind::kDecoding);
  const Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  msg::ChatOptions options;
  options.budget.memory = &charge;
  auto p = a_processor({}, {}, "{% set a = 'x' * 1000000 %}{% for i in range(9) %}{{ a }}{% endfor %}");
  auto text = p->render_chat(messages, Json::object(), options);
  ASSERT_TRUE(text) << text.error().text;
  EXPECT_EQ(text->size(), 9'000'000u);
  EXPECT_EQ(charge.used(), text->capacity());
  EXPECT_GE(ledger.held(base::MemoryKind::kDecoding), text->capacity());
  options.budget.keep(0);
  EXPECT_EQ(ledger.held(), 0u);

  ledger.add(base::MemoryKind::kSlabs, uint64_t(60) << 20);
  text = p->render_chat(messages, Json::object(), options);
  ASSERT_FALSE(text);
  EXPECT_EQ(base::http_status(text.error()), 503) << text.error().text;
  EXPECT_EQ(ledger.held(), uint64_t(60) << 20);
}

TEST(Processor, TheFinalMessageIsFoundInTimeThatIsLinear) {
  auto p = a_processor({}, {}, "{{ messages[0].content }}");  // and not the last one
  auto work = [&](size_t n) {
    Json messages = Json::array({{{"role", "user"}, {"content", std::string(n, 'a')}},
                                 {{"role", "assistant"}, {"content", std::string(n / 2, 'a') + "b"}}});
    msg::ChatOptions options;
    options.add_generation_prompt = false, options.continue_final_message = true;
    EXPECT_FALSE(p->render_chat(messages, Json::object(), options));
  };
  EXPECT_LE(support::growth(1'000'000, work), 2.5);
}

}  // namespace
}  // namespace weir::text
