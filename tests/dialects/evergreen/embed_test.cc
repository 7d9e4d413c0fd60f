// EMBED and TOKENIZE on encoders: models of tensors that take token ids.
#include <nlohmann/json.hpp>

#include "bench.h"
#include "support/text_models.h"

namespace weir::evergreen {
namespace {

// The bench with an encoder beside its models.
class EncoderBench : public Bench {
 public:
  explicit EncoderBench(msg::ModelSpec spec = support::encoder_spec("e")) { tensors.add(std::move(spec)); }
  support::ScriptedInbox& encoder() { return tensors["e"]; }
  // Names no model where `target` is empty.
  static std::string ask(std::string_view name, std::string_view output, std::string_view target) {
    std::string at = target.empty() ? "" : " target_spec { id: '" + std::string(target) + "' }";
    return "actions { name: '" + std::string(name) + "' inputs { name: 'text' id: 'p' } outputs { name: '" +
           std::string(output) + "' id: 'o' }" + at + " }";
  }
};

TEST(EvergreenEmbed, AnEncoderGetsTheIdsOfTheTextAndItsRowIsTheVector) {
  EncoderBench t;
  t.encoder().script.push_back({msg::Outputs{support::parse_tensors("v FP32 [1,4] [1,0,0,0.5]"), {}, true}});
  auto x = t.open();
  t.send(*x, EncoderBench::ask("EMBED", "embedding", "e") + text_leaf("p", "abc"));
  EXPECT_EQ(t.encoder().seen, std::vector<std::string>{"e/1 rows=1 | input_ids INT64 [1,3] [97,98,99]"});
  ASSERT_EQ(t.fragments(*x).size(), 1u) << t.status(*x);
  const auto chunk = t.fragments(*x)[0].chunk_fragment();
  EXPECT_EQ(chunk.metadata().mimetype(), "application/x-weir-tensor; dtype=FP32; shape=4; name=embedding");
  const float expected[4] = {1, 0, 0, 0.5F};
  EXPECT_EQ(chunk.data(), std::string(reinterpret_cast<const char*>(expected), sizeof expected));
}

TEST(EvergreenEmbed, TheTokensOfAnEncodersTextAreCharged) {
  for (const char* text : {"ab", "abc"}) {
    EncoderBench t;
    t.encoder().script.push_back({msg::Outputs{support::parse_tensors("v FP32 [1,4] [1,0,0,0.5]"), {}, true}});
    wire::Identity who;
    base::UsageLimits limits;
    limits.tokens_per_minute = 3;
    who.limiter = std::make_shared<base::UsageLimiter>("key", limits);
    auto x = t.open();
    x->mutable_request().identity = &who;
    t.send(*x, EncoderBench::ask("EMBED", "embedding", "e") + text_leaf("p", text));
    EXPECT_EQ(who.limiter->again(x->now()).ok(), std::string_view(text) == "ab") << t.status(*x);
  }
}

TEST(EvergreenEmbed, AnEncodersTokensAreItsTokenizers) {
  EncoderBench t;
  auto x = t.open();
  t.send(*x, EncoderBench::ask("TOKENIZE", "tokens", "e") + text_leaf("p", "ab"));
  EXPECT_EQ(t.leaf(*x, "o"), std::string("a\0\0\0b\0\0\0", 8)) << t.status(*x);
}

TEST(EvergreenEmbed, WhatAnEncoderCannotTakeIsRefusedByName) {
  auto refusal = [](const std::string& action, const std::string& text, auto&&... spec) {
    EncoderBench t(spec...);
    auto x = t.open();
    t.send(*x, action + text_leaf("p", text));
    EXPECT_TRUE(t.encoder().seen.empty());
    return t.status(*x);
  };
  const std::string embed = EncoderBench::ask("EMBED", "embedding", "e");
  EXPECT_EQ(refusal(embed, ""), "INVALID_ARGUMENT: action EMBED: the text is empty");
  EXPECT_EQ(refusal(embed, std::string(201, 'a')),
            "INVALID_ARGUMENT: action EMBED: the text has 201 tokens; the model's context has 200");
  EXPECT_EQ(refusal(EncoderBench::ask("GENERATE", "response", "e"), "a"),
            "INVALID_ARGUMENT: action GENERATE: model 'e' makes no tokens: it gives embeddings");
  EXPECT_EQ(refusal(EncoderBench::ask("EMBED", "embedding", "add"), "a"),
            "INVALID_ARGUMENT: action EMBED: model 'add' takes no text");
  EXPECT_EQ(
      refusal(EncoderBench::ask("EMBED", "embedding", ""), "a"),
      "INVALID_ARGUMENT: action EMBED: no model is named, and there is more than one model that takes text: name one "
      "of chat, e, or set models.default");
  auto bare = support::encoder_spec("e");
  auto ids_only = std::make_shared<msg::TextSpec>(*bare.encoder);
  ids_only->codec = nullptr;
  bare.encoder = ids_only;
  EXPECT_EQ(refusal(embed, "a", bare), "INVALID_ARGUMENT: action EMBED: model 'e' takes no text: it has no tokenizer");
}

TEST(EvergreenEmbed, AnAnswerThatIsNoVectorOfTheEncodersSizeIsAFailure) {
  EncoderBench t;
  t.encoder().script.push_back({msg::Outputs{support::parse_tensors("v FP32 [1,3] [1,0,0]"), {}, true}});
  auto x = t.open();
  t.send(*x, EncoderBench::ask("EMBED", "embedding", "e") + text_leaf("p", "abc"));
  EXPECT_EQ(t.status(*x), "INTERNAL: action EMBED: the model gave no embedding");
}

TEST(EvergreenEmbed, AnEncoderTakesTensorsAndTextAndMakesNone) {
  EncoderBench t;
  auto x = t.open();
  t.send(*x, "actions { name: 'LIST_ACTIONS' outputs { name: 'actions' id: 'l' } target_spec { id: 'e' } }");
  std::set<std::string> names;
  const auto list = nlohmann::json::parse(t.leaf(*x, "l"));
  for (const auto& action : list["actions"]) names.insert(action["name"]);
  EXPECT_EQ(names,
            (std::set<std::string>{"INFER", "EMBED", "TOKENIZE", "ECHO", "DROP", "SET_TTL", "CANCEL", "LIST_ACTIONS"}));
}

}  // namespace
}  // namespace weir::evergreen
