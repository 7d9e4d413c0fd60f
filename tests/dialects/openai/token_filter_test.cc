// Members that vLLM's clients send: allowed_token_ids, bad_words, and echo in a chat.
#include "bench.h"

namespace weir::openai {
namespace {

class TokenMembers : public OpenaiBench {
 protected:
  bool may_come(uint32_t id) { return msg::allows(call()->generation->constraint->mask(), id); }
  bool comes(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [&](char c) { return call()->generation->constraint->accept(uint8_t(c)); });
  }
};

TEST_F(TokenMembers, OnlyAllowedTokensAreDrawn) {
  auto x = complete({{"allowed_token_ids", {97, 256}}});
  ASSERT_TRUE(call()->generation->constraint);
  EXPECT_TRUE(may_come(97) && may_come(256));
  EXPECT_FALSE(may_come(98) || may_come(259));
  EXPECT_EQ(error(complete({{"allowed_token_ids", {260}}})), "400 invalid_request_error - allowed_token_ids");
  EXPECT_EQ(error(chat({{"allowed_token_ids", Json::array()}})), "400 invalid_request_error - allowed_token_ids");
  EXPECT_EQ(error(chat({{"allowed_token_ids", "a"}})), "400 invalid_request_error - allowed_token_ids");
  EXPECT_FALSE(complete({{"allowed_token_ids", nullptr}, {"bad_words", Json::array()}})->headed);
  EXPECT_FALSE(call(1)->generation->constraint) << "they ask for nothing";
}

TEST_F(TokenMembers, BadWordsDoNotCome) {
  auto x = chat({{"bad_words", {"abc", "z"}}});
  EXPECT_FALSE(may_come('z'));
  EXPECT_TRUE(may_come('c'));
  EXPECT_TRUE(comes("ab"));
  EXPECT_FALSE(may_come('c'));
  EXPECT_TRUE(comes("xbc"));
  EXPECT_EQ(error(complete({{"bad_words", {""}}})), "400 invalid_request_error - bad_words");
  EXPECT_EQ(error(complete({{"bad_words", "a"}})), "400 invalid_request_error - bad_words");
  EXPECT_EQ(error(complete({{"bad_words", std::vector<std::string>(257, "a")}})),
            "400 invalid_request_error - bad_words");
  EXPECT_EQ(error(complete({{"bad_words", {std::string(4097, 'a')}}})), "400 invalid_request_error - bad_words");
}

TEST_F(TokenMembers, SglangsFormsAreKnown) {
  for (const auto& [name, form] : {std::pair{"regex", "[0-9]"}, {"ebnf", "root ::= [0-9]"}}) {
    auto x = chat({{name, form}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    ASSERT_TRUE(call()->generation->constraint) << name;
    scripted().end();
    turn();
    EXPECT_EQ(message(chat({{name, "[.*"}})).substr(0, 4), std::string(name).substr(0, 4)) << "in the client's name";
  }
}

TEST_F(TokenMembers, LlamaCppsNamesAreKnown) {
  const Json llama{{"n_predict", 7},        {"repeat_penalty", 1.5},     {"cache_prompt", true},
                   {"id_slot", -1},         {"timings_per_token", true}, {"return_progress", true},
                   {"sse_ping_interval", 5}};
  auto x = complete(llama);
  EXPECT_EQ(call()->generation->max_tokens, 7u);
  EXPECT_EQ(call()->generation->sampling.repetition_penalty, 1.5F);
  auto endless = complete({{"n_predict", -1}});
  EXPECT_EQ(call(1)->generation->max_tokens, 200u - 2);
  EXPECT_EQ(error(complete({{"n_predict", -2}})), "400 invalid_request_error - n_predict");
  auto long_one = complete({{"n_predict", 500}});
  ASSERT_EQ(inbox().held.size(), 3u) << long_one->sent;
  EXPECT_EQ(call(2)->generation->max_tokens, 200u - 2) << "what the context has";
  EXPECT_EQ(error(chat({{"repeat_penalty", 0}})), "400 invalid_request_error - repeat_penalty");
  EXPECT_EQ(error(chat({{"cache_prompt", 1}})), "400 invalid_request_error - cache_prompt");
}

TEST_F(TokenMembers, LlamaCppsSamplersMayBeOff) {
  auto x = chat({{"samplers", {"top_k", "temperature"}},
                 {"min_keep", 0},
                 {"mirostat", 0},
                 {"mirostat_tau", 5},
                 {"mirostat_eta", 0.1},
                 {"typ_p", 1},
                 {"dynatemp_range", 0},
                 {"dynatemp_exponent", 1},
                 {"xtc_probability", 0},
                 {"xtc_threshold", 0.1},
                 {"dry_multiplier", 0},
                 {"dry_base", 1.75},
                 {"dry_allowed_length", 2},
                 {"dry_penalty_last_n", -1},
                 {"dry_sequence_breakers", {"\n", ":"}},
                 {"top_n_sigma", -1},
                 {"verbose", true}});
  EXPECT_EQ(inbox().held.size(), 1u) << x->sent;
  auto zero = chat({{"top_n_sigma", 0}});
  EXPECT_EQ(inbox().held.size(), 2u) << zero->sent;
  for (const auto& [name, on] : std::vector<std::pair<std::string, Json>>{{"typ_p", 0.5},
                                                                          {"dynatemp_range", 0.5},
                                                                          {"xtc_probability", 0.1},
                                                                          {"dry_multiplier", 0.8},
                                                                          {"top_n_sigma", 1},
                                                                          {"verbose", "yes"}})
    EXPECT_EQ(error(chat({{name, on}})), "400 invalid_request_error - " + name);
  EXPECT_EQ(error(chat({{"samplers", "top_k"}})), "400 invalid_request_error - samplers");
}

TEST_F(TokenMembers, BothHoldBesideAForm) {
  auto x = complete({{"structured_outputs", {{"regex", "[a-z]+"}}}, {"bad_words", {"b"}}});
  EXPECT_TRUE(may_come('a'));
  EXPECT_FALSE(may_come('b') || may_come('A'));
}

TEST_F(TokenMembers, AnAnswerThatEchoesBeginsWithTheMessageItGoesOnWith) {
  Json body{{"echo", true},
            {"logprobs", true},
            {"continue_final_message", true},
            {"messages", Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"So "}])")}};
  auto x = chat(body);
  EXPECT_EQ(call()->generation->logprobs.front().start, call()->generation->append.size());
  body["stream"] = true;
  auto streamed = chat(body);
  auto first = scripted(0), second = scripted(1);
  for (auto* v : {&first, &second}) {
    v->emit("be");
    v->end();
  }
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "So be");
  EXPECT_EQ(text(events(streamed)), "So be");
}

TEST_F(TokenMembers, AMessageOfAnotherRoleIsNotEchoed) {
  auto x = chat({{"echo", true}});
  auto v = scripted();
  v.emit("a");
  v.end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "a");
}

}  // namespace
}  // namespace weir::openai
