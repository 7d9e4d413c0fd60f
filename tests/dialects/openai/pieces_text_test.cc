// Answers that are written while their peer takes them, also where one choice is all of it.
#include "dialects/openai/pieces_text.h"

#include "bench.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

TEST(PiecesText, GivesOutLongPartsInStretchesOfTheTarget) {
  const std::string list(10'000, 'x');
  PiecesText text(3, [&](size_t piece, SplicedText& out) {
    out.own += '<' + std::to_string(piece);
    if (piece < 2) out.splice(list);
    out.splice("");
    out.own += '>';
  });
  std::string all;
  for (bool more = true; more;) {
    std::string some;
    more = text.write(some, 1000);
    EXPECT_LE(some.size(), 1000u);
    all += some;
  }
  EXPECT_EQ(all, "<0" + list + "><1" + list + "><2>");
}

TEST(PiecesText, IsWrittenAtOnceWithoutATarget) {
  PiecesText text(2, [](size_t piece, SplicedText& out) {
    out.splice(piece == 0 ? "first," : "second,");
    out.own += '-';
  });
  std::string all;
  EXPECT_FALSE(text.write(all, SIZE_MAX));
  EXPECT_EQ(all, "first,-second,-");
}

TEST(PiecesText, TextsAndIdsAreWrittenWhileTheyAreTaken) {
  std::string said;
  for (int i = 0; i < 5000; ++i) said += i % 3 ? "\x01\"" : "\xf0\x9f\x98\x80";
  const std::string broken = std::string(4000, '\x80') + "\xf0\x9f" + std::string(4000, 'a');
  std::vector<uint32_t> ids(3000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = uint32_t(i) * 1'000'003;
  for (const std::string& each : {said, broken, std::string("short")}) {
    PiecesText text(1, [&](size_t, SplicedText& out) {
      out.own = "{\"text\":";
      out.splice_string(each);
      out.own += ",\"ids\":[";
      out.splice_ids(ids);
      out.own += "]}";
    });
    std::string all;
    for (bool more = true; more;) {
      std::string some;
      more = text.write(some, 1000);
      EXPECT_LE(some.size(), 7000u) << "a stretch of a text has six bytes for each of its own";
      all += some;
    }
    std::string whole;
    marshal::write_string(whole, each);
    EXPECT_EQ(all, Json({{"ids", ids}}).dump().insert(1, "\"text\":" + whole + ','));
  }
}

TEST(JsonElements, AreListsHoweverManyBlocksTheyHave) {
  Json expected = Json::array();
  JsonElements list, twice;
  EXPECT_TRUE(list.empty());
  for (int i = 0; i < 50'000; ++i) {
    list.next() += std::to_string(i);
    expected.push_back(i);
  }
  ASSERT_GT(list.blocks().size(), 3u);
  for (const std::string& block : list.blocks()) EXPECT_LE(block.capacity(), 160u << 10);
  twice.append(list);
  twice.append(JsonElements());
  const auto text = [](const JsonElements& elements) {
    std::string out = "[";
    elements.append_to(out);
    EXPECT_EQ(out.size(), elements.size() + 1);
    return out += ']';
  };
  EXPECT_EQ(text(list), expected.dump());
  EXPECT_EQ(text(twice), text(list));
  twice.append(list);
  EXPECT_EQ(Json::parse(text(twice)).size(), 100'000u);
  list.clear();
  EXPECT_TRUE(list.empty());
  list.next() += "1";
  EXPECT_EQ(text(list), "[1]");
}

// Whoever charges for a list charges what it takes, also where blocks have room for more.
TEST(JsonElements, HoldTheMemoryOfTheirBlocks) {
  JsonElements list;
  EXPECT_EQ(list.held(), 0u);
  const auto blocks = [&list] {
    uint64_t out = 0;
    for (const std::string& block : list.blocks()) out += block.capacity();
    return out;
  };
  size_t roomy = 0;
  for (int i = 0; i < 20'000; ++i) {
    list.next() += std::to_string(i);
    ASSERT_GE(list.held(), blocks()) << i;
    ASSERT_LE(list.held(), blocks() + 2 * sizeof(std::string) * list.blocks().size()) << i;
    roomy += list.held() > list.size() * 3 / 2;
  }
  EXPECT_GT(roomy, 1000u) << "what it holds is not what it says";
  list.clear();
  EXPECT_GE(list.held(), blocks());
  EXPECT_GT(list.held(), 60'000u) << "a block stays";
  EXPECT_EQ(list.size(), 0u);
}

class LongChoices : public OpenaiBench {
 protected:
  LongChoices() { models.add(support::text_spec("long", 20'000)); }
  Opened begin(std::string path, Json body) {
    body["model"] = "long";
    auto x = open("POST", std::move(path), body.dump());
    x->reads = false;
    EXPECT_EQ(longs().held.size(), 1u) << x->sent;
    return x;
  }
  // With 20 alternatives of each token, more than 2 MiB of JSON.
  Opened ask(std::string path, Json body, int tokens = kTokens) {
    auto x = begin(std::move(path), std::move(body));
    std::vector<msg::TokenLogprob> top;
    for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
    ScriptedAnswer answer{longs(), longs().held.at(0)};
    for (int token = 0; token < tokens; ++token) answer.token('c', likely(-1, top));
    answer.done();
    turn();
    return x;
  }
  support::ScriptedInbox& longs() { return models["long"]; }
  // At first and then each time no more than what is written ahead of the peer.
  static void expect_pieces(const Opened& x) {
    EXPECT_FALSE(x->ended);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_LT(x->sent.size(), 1'500'000u);
    while (!x->ended) {
      const size_t before = x->sent.size();
      x->fake_backlog = 0, x->listener()->on_drain(*x);
      ASSERT_LT(x->sent.size(), before + 500'000);
    }
    EXPECT_GT(x->sent.size(), size_t(2) << 20);
  }

  static constexpr int kTokens = 12'000;
  const Json messages = {{{"role", "user"}, {"content", "hi"}}};
};

TEST_F(LongChoices, OfOpenAiAreWrittenInPieces) {
  auto x = ask("/v1/completions", {{"prompt", "ab"}, {"logprobs", 20}, {"max_tokens", kTokens}});
  expect_pieces(x);
  const Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["text"], std::string(kTokens, 'c'));
  for (const char* list : {"text_offset", "token_logprobs", "tokens", "top_logprobs"})
    EXPECT_EQ(choice["logprobs"][list].size(), size_t(kTokens)) << list;

  auto chat = ask("/v1/chat/completions",
                  {{"messages", messages}, {"logprobs", true}, {"top_logprobs", 20}, {"max_tokens", kTokens}});
  expect_pieces(chat);
  EXPECT_EQ(json(chat)["choices"][0]["logprobs"]["content"].size(), size_t(kTokens));
}

TEST_F(LongChoices, OfSglangAndTgiAreWrittenInPieces) {
  auto x = ask("/generate", {{"text", "ab"},
                             {"return_logprob", true},
                             {"top_logprobs_num", 20},
                             {"sampling_params", {{"max_new_tokens", kTokens}}}});
  expect_pieces(x);
  EXPECT_EQ(json(x)["meta_info"]["output_top_logprobs"].size(), size_t(kTokens));

  auto y = ask("/generate", {{"inputs", "ab"},
                             {"parameters", {{"details", true}, {"top_n_tokens", 5}, {"max_new_tokens", kTokens}}}});
  expect_pieces(y);
  EXPECT_EQ(json(y)["details"]["tokens"].size(), size_t(kTokens));
  EXPECT_EQ(json(y)["details"]["top_tokens"].size(), size_t(kTokens));
}

TEST_F(LongChoices, OfLlamaCppAreWrittenInPieces) {
  auto x = ask("/completion", {{"prompt", "ab"}, {"n_probs", 20}, {"n_predict", kTokens}});
  expect_pieces(x);
  EXPECT_EQ(json(x)["content"], std::string(kTokens, 'c'));
  EXPECT_EQ(json(x)["completion_probabilities"].size(), size_t(kTokens));
}

TEST_F(LongChoices, OfOllamaAreWrittenInPieces) {
  const Json how = {
      {"stream", false}, {"logprobs", true}, {"top_logprobs", 20}, {"options", {{"num_predict", kTokens}}}};
  Json body = how;
  body["messages"] = messages;
  auto x = ask("/api/chat", body);
  expect_pieces(x);
  EXPECT_EQ(json(x)["message"]["content"], std::string(kTokens, 'c'));
  EXPECT_EQ(json(x)["logprobs"].size(), size_t(kTokens));

  body = how;
  body["prompt"] = "hi";
  auto y = ask("/api/generate", body);
  expect_pieces(y);
  const Json answer = json(y);
  EXPECT_EQ(answer["response"], std::string(kTokens, 'c'));
  EXPECT_EQ(answer["context"].size(), answer["prompt_eval_count"].get<size_t>() + kTokens);
  EXPECT_EQ(answer["context"].back(), int('c'));
}

TEST_F(LongChoices, OfAnthropicAreWrittenInPieces) {
  auto x = begin("/v1/messages", {{"messages", messages}, {"max_tokens", 15'000}});
  const std::string quotes(400'000, '\x01');
  ScriptedAnswer answer{longs(), longs().held.at(0)};
  answer.emit(quotes);
  answer.done();
  turn();
  expect_pieces(x);
  EXPECT_EQ(json(x)["content"][0]["text"], quotes);
}

TEST_F(LongChoices, OfResponsesAreWrittenInPieces) {
  responses::StoredResponses stored{std::chrono::minutes(10), 64 << 20};
  options.stored = &stored;
  for (bool store : {false, true}) {
    auto x = ask("/v1/responses", {{"input", "hi"},
                                   {"store", store},
                                   {"include", {"message.output_text.logprobs"}},
                                   {"top_logprobs", 20},
                                   {"max_output_tokens", kTokens}});
    expect_pieces(x);
    const Json part = json(x)["output"][0]["content"][0];
    EXPECT_EQ(part["text"], std::string(kTokens, 'c'));
    EXPECT_EQ(part["logprobs"].size(), size_t(kTokens));
  }
  EXPECT_EQ(stored.size(), 0u) << "more than one may have";
  openai.reset();
}

// A stored response is one text, which the answer shares.
TEST_F(LongChoices, OfResponsesThatAreStoredAreWrittenInPieces) {
  responses::StoredResponses stored{std::chrono::minutes(10), 64 << 20};
  options.stored = &stored;
  auto x = ask("/v1/responses", {{"input", "hi"}, {"include", {"message.output_text.logprobs"}}, {"top_logprobs", 20}},
               3000);
  expect_pieces(x);
  EXPECT_EQ(json(x)["output"][0]["content"][0]["logprobs"].size(), 3000u);
  EXPECT_EQ(stored.size(), 1u);
  x.reset();
  openai.reset();
}

}  // namespace
}  // namespace weir::openai
