#include "text/processor.h"

#include "tiny_tokenizers.h"

namespace weir::text {
namespace {

std::string tokenizer_with(std::vector<std::string> specials) {
  Json file = byte_level_file({});
  uint32_t id = 300;
  for (const auto& content : specials)
    file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", true}});
  return file.dump();
}

std::shared_ptr<const Processor> processor(std::vector<std::string> specials, std::string config = {},
                                           std::string jinja = {}) {
  auto out = make_processor(tokenizer_with(std::move(specials)), config, jinja);
  EXPECT_TRUE(out) << out.error().text;
  return out ? *out : nullptr;
}

std::string chat(const Processor& p, const Json& messages, const Json& extra = Json::object(),
                 const ChatOptions& options = {}) {
  auto out = render_chat(p, messages, extra, options);
  return out ? *out : "fault: " + out.error().text;
}

const Json kHello = Json::parse(R"([{"role": "user", "content": "hi"}])");

TEST(Processor, ChatmlAndLlama3AreKnownByTheirTokens) {
  EXPECT_EQ(chat(*processor({"<|im_start|>", "<|im_end|>"}), kHello),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  auto llama3 = processor({"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  EXPECT_EQ(chat(*llama3, kHello),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(llama3->eos, "<|eot_id|>");
  EXPECT_EQ(processor({})->chat, nullptr);
  EXPECT_EQ(chat(*processor({}), kHello), "fault: the model has no chat template");
}

TEST(Processor, TheConfigsTemplateIsTakenAndItsOwnFileBeforeIt) {
  std::string config = R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
                           "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}"})";
  auto p = processor({"<|im_start|>"}, config);
  EXPECT_EQ(p->bos, "<s>");
  EXPECT_EQ(p->eos, "</s>");
  EXPECT_EQ(p->pad, "");
  EXPECT_EQ(chat(*p, kHello), "<s>hiTrue");
  EXPECT_EQ(chat(*processor({}, config, "own {{ eos_token }}"), kHello), "own </s>");
  config = R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})";
  EXPECT_EQ(chat(*processor({}, config), kHello), "d");
}

TEST(Processor, AFileThatIsWrongIsNamed) {
  auto fault = [](std::string config, std::string jinja = {}) {
    auto out = make_processor(tokenizer_with({}), config, jinja);
    return out ? std::string("none") : out.error().text;
  };
  EXPECT_TRUE(fault("[]").starts_with("tokenizer_config.json: "));
  EXPECT_TRUE(fault(R"({"bos_token": 1})").starts_with("tokenizer_config.json: bos_token"));
  EXPECT_TRUE(fault(R"({"chat_template": 1})").starts_with("tokenizer_config.json: chat_template"));
  EXPECT_TRUE(fault(R"({"chat_template": "{% if"})").starts_with("tokenizer_config.json: the chat template, line 1"));
  EXPECT_TRUE(fault("", "{% if").starts_with("chat_template.jinja: the chat template, line 1"));
  EXPECT_TRUE(make_processor("{", "", "").error().text.starts_with("tokenizer.json: "));
}

TEST(Processor, PartsOfContentAreJoinedAndImagesBecomeTheirText) {
  auto p = processor({"<|im_start|>"}, "", "{{ messages[0].content }}");
  Json messages = Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "a "},
    {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": " b"}]}])");
  ChatOptions options;
  EXPECT_EQ(chat(*p, messages), "fault: messages[0].content[1] is an image, which this model does not take");
  options.image_text = "<img>";
  EXPECT_EQ(chat(*p, messages, Json::object(), options), "a <img> b");
}

TEST(Processor, MessagesThatAreWrongAreNamed) {
  auto p = processor({"<|im_start|>"});
  EXPECT_EQ(chat(*p, Json::array()), "fault: messages is not a list of messages");
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
      processor({}, "", "{{ messages[0].tool_calls[0].function.arguments.city }}{{ messages[0].content is none }}");
  EXPECT_EQ(chat(*p, Json::parse(R"([{"role": "assistant", "tool_calls": [{"type": "function", "function":
              {"name": "f", "arguments": "{\"city\": \"Ulm\"}"}}]}])")),
            "UlmTrue");
}

TEST(Processor, ToolsKeepTheOrderOfTheirKeys) {
  auto p = processor({}, "", "{{ tools[0] | tojson }}");
  auto extra = nlohmann::ordered_json::parse(R"({"tools": [{"type": "function", "b": 1, "a": 2}]})");
  auto out = render_chat_ordered(*p, nlohmann::ordered_json(kHello), extra, {});
  EXPECT_EQ(*out, R"({"type": "function", "b": 1, "a": 2})");
}

TEST(Processor, TheFinalMessageIsContinued) {
  auto p = processor({"<|im_start|>"});
  Json messages = Json::parse(R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Once upon "}])");
  ChatOptions options{.add_generation_prompt = false, .continue_final_message = true, .image_text = {}};
  EXPECT_EQ(chat(*p, messages, Json::object(), options),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nOnce upon ");
  options.add_generation_prompt = true;
  EXPECT_TRUE(chat(*p, messages, Json::object(), options).starts_with("fault: add_generation_prompt"));
}

TEST(Processor, ExtraVariablesReachTheTemplateButNotTheMessages) {
  auto p = processor({}, "", "{{ enable_thinking }} {{ messages[0].content }}");
  EXPECT_EQ(chat(*p, kHello, {{"enable_thinking", false}, {"messages", "mine"}}), "False hi");
}

}  // namespace
}  // namespace weir::text
