// GENERATE: prompts, configuration, conversations, details of tokens.
#include <cstdlib>

#include "bench.h"
#include "support/generation_cases.h"
#include "support/held_workers.h"

namespace weir::evergreen {
namespace {

TEST(Evergreen, GenerateStreamsTheAnswerOfTheModel) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r", "outputs { name: 'usage' id: 'u' }") + text_leaf("p", "hello"));
  EXPECT_EQ(t.prompt(), "[user]hello<|end|>[assistant]");
  msg::Call* call = t.chat->held.at(0);
  t.chat->emit(call, {msg::Token{'H', 30, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r"), "H…");
  t.answer("i");
  EXPECT_EQ(t.leaf(*x, "r"), "Hi");
  EXPECT_NE(t.leaf(*x, "u").find("\"finish_reason\":\"stop\""), std::string::npos);
  v1::Usage usage;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "u") f.chunk_fragment().metadata().experimental(0).UnpackTo(&usage);
  EXPECT_EQ(usage.prompt_tokens(), call ? usage.prompt_tokens() : 0);
  EXPECT_EQ(usage.completion_tokens(), 2u);
}

TEST(Evergreen, ConfigurationReachesTheModelAndIsChecked) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.set_temperature(0);
  c.set_max_tokens(7);
  c.set_seed(5);
  c.set_raw(true);
  add_config(m, c);
  t.send(*x, m);
  EXPECT_EQ(t.prompt(), "hello");
  const msg::Generation& g = *t.chat->held.at(0)->generation;
  EXPECT_EQ(g.sampling.temperature, 0);
  EXPECT_EQ(g.max_tokens, 7u);
  EXPECT_EQ(g.sampling.seed, 5u);

  auto y = t.open();
  m = t.parse(generate("p", "r"));
  c.set_top_p(1.5f);
  add_config(m, c);
  t.send(*y, m);
  EXPECT_EQ(t.status(*y), "INVALID_ARGUMENT: action GENERATE: GenerateConfig.top_p must be >= 0 and <= 1, not 1.5");
  EXPECT_EQ(t.status(*x), "open") << "another session";
}

TEST(Evergreen, NumbersAtTheirEdgesAreTakenOrNamed) {
  Bench t;
  using C = v1::GenerateConfig;
  std::vector<support::GenerationCase> edges;
  auto whole = [&](const char* field, void (C::*set)(uint32_t), std::vector<uint32_t> good, std::vector<uint32_t> bad) {
    auto add = [&](uint32_t v, bool fine) {
      C c;
      (c.*set)(v);
      edges.push_back({field, c.SerializeAsString(), fine});
    };
    for (uint32_t v : good) add(v, true);
    for (uint32_t v : bad) add(v, false);
  };
  for (auto& c : support::pb_cases(marshal::Protocol::kEvergreen))  // how many tokens fit depends on the prompt
    if (c.name != "max_tokens" && c.name != "min_tokens") edges.push_back(std::move(c));
  whole("max_tokens", &C::set_max_tokens, {0, 1, 990}, {1001, 1u << 31, UINT32_MAX});
  whole("min_tokens", &C::set_min_tokens, {0, 256}, {257, 1u << 31, UINT32_MAX});
  whole("top_logprobs", &C::set_top_logprobs, {0, 128}, {129, 1u << 31, UINT32_MAX});
  for (const auto& edge : edges) {
    auto x = t.open();
    auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
    C c;
    c.set_raw(true);
    auto& any = *m.mutable_actions(0)->add_configs();
    any.PackFrom(c);
    *any.mutable_value() += edge.value;
    c.MergeFromString(edge.value);  // to be shown
    t.send(*x, m);
    if (edge.good) {
      EXPECT_EQ(t.status(*x), "open") << c.ShortDebugString();
      t.answer("ok");
    } else {
      EXPECT_NE(t.status(*x).find("INVALID_ARGUMENT: action GENERATE: GenerateConfig." + edge.name), std::string::npos)
          << c.ShortDebugString() << t.status(*x);
      EXPECT_TRUE(t.chat->held.empty());
    }
  }
}

TEST(Evergreen, APromptThatCannotFitIsRefusedBeforeItIsKept) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r"));
  for (int i = 0; i < 3 && t.status(*x) == "open"; ++i) {
    auto m = t.parse("node_fragments { id: 'p' continued: true seq: " + std::to_string(i) +
                     " chunk_fragment { metadata { mimetype: 'text/plain' } } }");
    m.mutable_node_fragments(0)->mutable_chunk_fragment()->set_data(std::string(60'000, 'x'));
    t.send(*x, m);
  }
  EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: action GENERATE: node 'p': the prompt is too long for the model");
}

TEST(Evergreen, ALongTextIsTokenizedByWorkersWhileTheSessionGoesOn) {
  Bench t;
  support::HeldWorkers workers;
  t.bus.set_worker_pool(workers);
  std::string text(9'000, 'x');
  auto x = t.open();
  t.send(*x,
         "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } outputs { name: 'tokens' id: 'n' } target_spec { "
         "id: 'chat' } } actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }" +
             text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  t.send(*x, text_leaf("in", "hello"));
  EXPECT_EQ(t.leaf(*x, "out"), "hello");
  EXPECT_EQ(t.leaf(*x, "n"), "…");
  workers.work();
  t.turn();
  EXPECT_GE(t.leaf(*x, "n").size(), 9'000u * 4);

  auto y = t.open();
  t.send(*y, generate("p", "r") + text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  workers.work();
  t.turn();
  EXPECT_NE(t.status(*y).find("the model's context has 1000"), std::string::npos) << t.status(*y);

  auto gone = t.open();
  t.send(*gone, generate("p", "r") + text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  gone.reset();
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  workers.work();
  t.turn();
  EXPECT_TRUE(t.chat->held.empty());
}

TEST(Evergreen, AStopStringEndsTheAnswerAndTheCall) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.add_stop("END");
  add_config(m, c);
  t.send(*x, m);
  msg::Call* call = t.chat->held.at(0);
  for (char ch : std::string("abENDxx")) t.chat->emit(call, {msg::Token{uint8_t(ch), 0, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r"), "ab");
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(x->record().version, "1");
}

TEST(Evergreen, RolesAndEndsOfTurnsMakeTheConversation) {
  Bench t;
  auto x = t.open();
  t.send(
      *x,
      generate("p", "r") +
          "node_fragments { id: 'p' child_ids: 's' child_ids: 'a' child_ids: 'b' child_ids: 'eot' child_ids: 'c' "
          "child_ids: 'm' }" +
          text_leaf("a", "A") + text_leaf("b", "B") + text_leaf("c", "C") +
          "node_fragments { id: 's' chunk_fragment { metadata { mimetype: 'text/plain' role: 'SYSTEM' } data: 'S' } }"
          "node_fragments { id: 'm' chunk_fragment { metadata { mimetype: 'text/plain' role: 'model' } data: 'M' } }"
          "node_fragments { id: 'eot' chunk_fragment { metadata { mimetype: 'application/x-protobuf; "
          "type=EndOfTurn' } } }");
  EXPECT_EQ(t.prompt(), "[system]S<|end|>[user]AB<|end|>[user]C<|end|>[assistant]M<|end|>[assistant]");
}

std::string typed_leaf(std::string_view id, std::string_view type, std::string_view role, std::string_view data) {
  return "node_fragments { id: '" + std::string(id) + "' chunk_fragment { metadata { mimetype: '" + std::string(type) +
         "' role: '" + std::string(role) + "' } data: '" + std::string(data) + "' } }";
}

TEST(Evergreen, ARoleIsWhatTheTemplateMakesOfIt) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + "node_fragments { id: 'p' child_ids: 'a' child_ids: 'b' child_ids: 'c' }" +
                 typed_leaf("a", "text/plain", "CONTEXT", "A") + typed_leaf("b", "text/plain", "critic", "B") +
                 typed_leaf("c", "text/plain", "Model", "C"));
  EXPECT_EQ(t.prompt(), "[CONTEXT]A<|end|>[critic]B<|end|>[assistant]C<|end|>[assistant]");
}

TEST(Evergreen, TextOfAllKindsIsText) {
  const std::vector<std::pair<std::string, std::string>> leaves{{"application/x-latex", "A"},
                                                                {"Text/Markdown; charset=utf-8", "B"},
                                                                {"application/json", "{}"},
                                                                {"Application/geo+JSON", "[]"},
                                                                {"application/xml", "<a/>"},
                                                                {"application/x.y+yaml", "-"},
                                                                {"video/mp4", ""}};
  std::string parent = "node_fragments { id: 'p' ", all;
  for (size_t i = 0; i < leaves.size(); ++i) {
    parent += "child_ids: 'c" + std::to_string(i) + "' ";
    all += typed_leaf("c" + std::to_string(i), leaves[i].first, "", leaves[i].second);
  }
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + parent + "}" + all);
  EXPECT_EQ(t.prompt(), "[user]AB{}[]<a/>-<|end|>[assistant]") << "and a leaf without bytes is nothing";
  auto y = t.open();
  t.send(*y,
         "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'l' } outputs { name: 'tokens' id: 't' } target_spec { "
         "id: 'chat' } }" +
             typed_leaf("l", "Application/X-Latex", "", "AB"));
  EXPECT_EQ(t.leaf(*y, "t").size(), 8u);
}

TEST(Evergreen, ContentThatTheModelCannotSeeIsNamedToItAndCountsAsText) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + "node_fragments { id: 'p' child_ids: 'q' child_ids: 'v' child_ids: 'w' }" +
                 typed_leaf("q", "text/plain", "", "See ") + typed_leaf("v", "video/mp4", "", "xyz") +
                 typed_leaf("w", std::string(1000, 'a') + "/b", "", "x"));
  EXPECT_EQ(t.prompt(), "[user]See [video/mp4, 3 bytes][" + std::string(80, 'a') + ", 1 bytes]<|end|>[assistant]");
  auto y = t.open();
  std::string many = generate("p", "r") + "node_fragments { id: 'p' ";
  for (int i = 0; i < 2000; ++i) many += "child_ids: 'v' ";
  t.send(*y, many + "}" + typed_leaf("v", std::string(80, 'v'), "", "x"));
  EXPECT_EQ(t.status(*y), "INVALID_ARGUMENT: action GENERATE: node 'v': the prompt is too long for the model");
}

TEST(Evergreen, APromptWithoutLeavesIsCalledThat) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + "node_fragments { id: 'p' }");
  EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: action GENERATE: the prompt is empty");
}

TEST(Evergreen, AnImageThatCannotBeReadIsNamed) {
  Bench t;
  auto& served = *t.catalog->models["chat"].versions["1"];
  auto seeing = std::make_shared<msg::TextSpec>(*served.spec.text);
  seeing->vision = msg::TextSpec::Vision{};
  seeing->vision->features = [](std::string_view data, std::string_view) -> base::Result<uint32_t> {
    if (data == "good") return 1;
    return base::invalid("the image is damaged");
  };
  served.spec.text = seeing;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + "node_fragments { id: 'p' child_ids: 'i' child_ids: 'j' }" +
                   typed_leaf("i", "image/png", "", "good") + typed_leaf("j", "image/png", "", "bad"));
  v1::GenerateConfig raw;
  raw.set_raw(true);
  add_config(m, raw);
  t.send(*x, m);
  EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: action GENERATE: node 'j': the image is damaged");
}

TEST(Evergreen, TheSecondQuestionBeginsWithTheVeryTokensOfTheFirst) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p1", "r1") + text_leaf("p1", "hello"));
  auto first = t.chat->held.at(0)->generation->append;
  t.answer("low");  // three bytes, where the tokenizer would take "l" and "ow"
  t.send(*x, generate("p2", "r2", "outputs { name: 'usage' id: 'u' }") +
                 "node_fragments { id: 'p2' child_ids: 'p1' child_ids: 'r1' child_ids: 'q2' }" +
                 text_leaf("q2", "why?"));
  EXPECT_EQ(t.prompt(), "[user]hello<|end|>[assistant]low<|end|>[user]why?<|end|>[assistant]");
  auto second = t.chat->held.at(0)->generation->append;
  for (char c : std::string("low")) first.push_back(uint8_t(c));
  first.push_back(kEnd);
  ASSERT_GT(second.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
  t.answer("x", 21);
  EXPECT_NE(t.leaf(*x, "u").find("\"cached_prompt_tokens\":21"), std::string::npos);
}

TEST(Evergreen, DetailsOfTokensAreInTheMetadataOfALeafEach) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.set_top_logprobs(1);
  c.set_readouts(true);
  add_config(m, c);
  t.send(*x, m);
  msg::Call* call = t.chat->held.at(0);
  EXPECT_EQ(call->generation->logprobs.at(0).start, call->generation->length());
  EXPECT_EQ(call->generation->readouts.size(), 1u);
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true, details->logprob = -0.5f, details->top = {{'y', -0.25f}}, details->readout = {0.75f};
  t.chat->emit(call, {msg::Token{'x', 30, false, details}});
  t.chat->emit(call, {msg::Done{30, 0, 1, msg::Finish::kLength, 0}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r/0"), "x");
  v1::TokenDetails d;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "r/0") f.chunk_fragment().metadata().experimental(0).UnpackTo(&d);
  EXPECT_EQ(d.ShortDebugString(),
            "id: 120 position: 30 logprob: -0.5 top { id: 121 text: \"y\" logprob: -0.25 } "
            "readouts { concept_name: \"digit\" layer: 1 value: 0.75 }");
}

// Clients refuse a message of protobuf with a string that is no UTF-8, and with it the whole of what is streamed.
TEST(Evergreen, AnAlternativeThatIsNotUtf8IsShownAsText) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.set_top_logprobs(2);
  add_config(m, c);
  t.send(*x, m);
  msg::Call* call = t.chat->held.at(0);
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true, details->logprob = -0.5f, details->top = {{'y', -0.5f}, {'z', -1}};
  details->texts = {"x", "a\xf0\x9f", "\xc3\xbc\n"};
  t.chat->emit(call, {msg::Token{'x', 30, false, details}});
  t.chat->emit(call, {msg::Done{30, 0, 1, msg::Finish::kLength, 0}});
  t.turn();
  v1::TokenDetails d;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "r/0") f.chunk_fragment().metadata().experimental(0).UnpackTo(&d);
  ASSERT_EQ(d.top_size(), 2);
  EXPECT_EQ(d.top(0).text(), "a??");
  EXPECT_EQ(d.top(1).text(), "\xc3\xbc\n");
}

TEST(Evergreen, APromptThatIsNotUtf8IsRefused) {
  for (const bool raw : {false, true}) {
    Bench t;
    auto x = t.open();
    auto m = t.parse(generate("p", "r") + text_leaf("p", "hello \\377"));
    v1::GenerateConfig config;
    config.set_raw(raw);
    add_config(m, config);
    t.send(*x, m);
    EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: action GENERATE: the prompt is not UTF-8") << raw;
  }
}

// "hi" in UTF-16 is UTF-8, too: h, a zero, i, a zero.
TEST(Evergreen, ATextInACharsetThatOnlyLooksLikeUtf8IsRefused) {
  const std::string tokenize =
      "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } outputs { name: 'tokens' id: 'r' } "
      "target_spec { id: 'chat' } }";
  for (const auto& [action, ask] : {std::pair("GENERATE", generate("p", "r")), std::pair("TOKENIZE", tokenize)}) {
    auto status = [&](const std::string& mimetype) {
      Bench t;
      auto x = t.open();
      t.send(*x, ask + "node_fragments { id: 'p' chunk_fragment { metadata { mimetype: '" + mimetype +
                     "' } data: 'h\\000i\\000' } }");
      return t.status(*x);
    };
    EXPECT_EQ(status("text/plain; charset=UTF-16LE"),
              "INVALID_ARGUMENT: action " + std::string(action) + ": node 'p': text must be UTF-8, not 'UTF-16LE'");
    for (const char* fine :
         {"text/plain", "text/plain;charset=\"utf-8\"", "text/plain; charset=US-ASCII", "text/csv; charset=iso-8859-1"})
      EXPECT_EQ(status(fine), "open") << action << fine;
  }
}

}  // namespace
}  // namespace weir::evergreen
