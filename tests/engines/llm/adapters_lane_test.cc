// A model with adapters behind its token lane, against the folders of merged weights behind theirs (adapters.py): the
// same tokens, and log-probabilities that differ by rounding alone.
#include "adapted_models.h"
#include "engines/llm/llm.h"
#include "support/open_home.h"

namespace weir::llm {
namespace {

struct Said {
  std::vector<uint32_t> ids;    // those that were generated
  std::vector<float> logprobs;  // of these, and of the prompt's
  uint32_t cached = 0;
};

// One Call, which waits for nobody.
struct Asked {
  // Log-probabilities of positions from `first` on.
  Asked(msg::Inbox& inbox, uint32_t adapter, std::vector<uint32_t> prompt, uint32_t tokens, uint32_t first = 1) {
    call.home = &answers, call.credit = 1000, call.adapter = adapter;
    call.generation = std::make_unique<msg::Generation>();
    auto& params = *call.generation;
    params.logprobs = {{first, uint32_t(prompt.size()) + tokens}};
    params.append = std::move(prompt), params.max_tokens = tokens;
    params.ignore_eos = true, params.sampling.temperature = 0;
    inbox.put(&call);
  }
  Said said() {
    Said out;
    const auto last = answers.until_last();
    EXPECT_TRUE(std::holds_alternative<msg::Done>(last.what));
    for (auto& mail : answers.mail)
      if (auto* token = std::get_if<msg::Token>(&mail.event.what)) {
        if (!token->prefill) out.ids.push_back(token->id);
        if (token->details) out.logprobs.push_back(token->details->logprob);
      }
    if (auto* done = std::get_if<msg::Done>(&last.what)) out.cached = done->cached_tokens;
    return out;
  }
  support::OpenHome answers;
  msg::Call call;
};

struct Lane {
  explicit Lane(const std::string& folder, std::map<std::string, std::string> parameters, bool adapted) {
    wanted.name = folder;
    wanted.parameters = std::move(parameters);
    wanted.parameters.insert({{"device", "cpu"}, {"threads", "2"}, {"kv_cache", "4MiB"}});
    if (adapted)
      for (const char* name : {"odd", "pattern", "thin", "whole"})
        wanted.adapters[name] = std::string("adapters/") + name;
    auto loaded = load(wanted, adapted_models() + "/" + folder + "/config.json");
    EXPECT_TRUE(bool(loaded)) << loaded.error().text;
    std::vector<generation::TokenModel> instances;
    instances.push_back(std::get<generation::TokenModel>(std::move(*loaded)));
    spec = instances.front().spec;
    inbox = generation::make_inbox(std::move(instances), spec, stats);
  }
  Said ask(uint32_t adapter, const std::vector<uint32_t>& prompt, uint32_t first = 1) {
    return Asked(*inbox, adapter, prompt, 24, first).said();
  }
  msg::ModelSpec wanted, spec;
  bus::ModelStats stats;
  std::unique_ptr<msg::Inbox> inbox;
};

// The base and its four adapters.
std::vector<std::unique_ptr<Lane>> merged_lanes() {
  std::vector<std::unique_ptr<Lane>> out;
  for (const char* folder : {"served", "served_odd", "served_pattern", "served_thin", "served_whole"})
    out.push_back(std::make_unique<Lane>(folder, std::map<std::string, std::string>(), false));
  return out;
}

std::vector<uint32_t> prompt_of(uint32_t i) {
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < 20 + 7 * i; ++k) out.push_back(6 + (k * (3 + i) + i * i) % 200);
  return out;
}

void expect_same(const Said& ours, const Said& theirs, const std::string& what) {
  EXPECT_EQ(ours.ids, theirs.ids) << what;
  ASSERT_EQ(ours.logprobs.size(), theirs.logprobs.size()) << what;
  for (size_t i = 0; i < ours.logprobs.size(); ++i)
    EXPECT_NEAR(ours.logprobs[i], theirs.logprobs[i], 1e-3) << what << " " << i;
}

class LlmAdaptersLane : public testing::Test {
 protected:
  void SetUp() override {
    if (adapted_models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
};

// Chunks of prompts, guesses, preemption for lack of blocks: what a lane does changes nothing.
TEST_F(LlmAdaptersLane, ManyAtOnceSayWhatMergedFoldersSay) {
  const auto merged = merged_lanes();
  using Parameters = std::map<std::string, std::string>;
  for (const Parameters& parameters :
       {Parameters{}, Parameters{{"step_tokens", "8"}, {"max_running", "6"}}, Parameters{{"draft_tokens", "6"}},
        Parameters{{"kv_cache", "192KiB"}}, Parameters{{"prefix_cache", "off"}}}) {
    Lane lane("served", parameters, true);
    std::vector<std::unique_ptr<Asked>> asked;
    for (uint32_t i = 0; i < 20; ++i)
      asked.push_back(std::make_unique<Asked>(*lane.inbox, i % 5, prompt_of(i / 5), 24u));
    for (uint32_t i = 0; i < 20; ++i)
      expect_same(asked[i]->said(), merged[i % 5]->ask(0, prompt_of(i / 5)), std::to_string(i));
  }
}

// The same prompt by all of them, twice: what the one has stored no other finds.
TEST_F(LlmAdaptersLane, APrefixIsFoundByItsOwnAdapterAlone) {
  const auto merged = merged_lanes();
  Lane lane("served", {}, true);
  const auto prompt = prompt_of(5);
  const auto first = uint32_t(prompt.size());
  std::vector<std::vector<uint32_t>> texts;
  for (uint32_t cached : {0u, 48u})
    for (uint32_t adapter = 0; adapter < 5; ++adapter) {
      const Said said = lane.ask(adapter, prompt, first);
      expect_same(said, merged[adapter]->ask(0, prompt, first), std::to_string(adapter));
      EXPECT_EQ(said.cached, cached) << adapter;
      texts.push_back(said.ids);
    }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()) - texts.begin(), 5) << "each says something else";
}

TEST_F(LlmAdaptersLane, ASessionGoesOnWithItsAdapter) {
  const auto merged = merged_lanes();
  Lane lane("served", {}, true);
  for (uint32_t adapter = 0; adapter < 5; ++adapter) {
    std::vector<uint32_t> history[2];
    for (uint32_t turn = 0; turn < 3; ++turn) {
      Said said[2];
      for (int which : {0, 1}) {
        auto& inbox = which == 0 ? *lane.inbox : *merged[adapter]->inbox;
        support::OpenHome answers;
        msg::Call call;
        call.home = &answers, call.credit = 1000, call.session = {1, adapter + 1};
        call.adapter = which == 0 ? adapter : 0;
        call.generation = std::make_unique<msg::Generation>();
        call.generation->history = history[which], call.generation->append = prompt_of(turn);
        call.generation->max_tokens = 8, call.generation->ignore_eos = true;
        call.generation->sampling.temperature = 0;
        inbox.put(&call);
        EXPECT_TRUE(std::holds_alternative<msg::Done>(answers.until_last().what));
        auto next = history[which];
        next.insert(next.end(), call.generation->append.begin(), call.generation->append.end());
        for (auto& mail : answers.mail)
          if (auto* token = std::get_if<msg::Token>(&mail.event.what)) said[which].ids.push_back(token->id);
        next.insert(next.end(), said[which].ids.begin(), said[which].ids.end());
        history[which] = std::move(next);
      }
      EXPECT_EQ(said[0].ids, said[1].ids) << adapter << " turn " << turn;
    }
  }
}

}  // namespace
}  // namespace weir::llm
