// Kind openai: requests, events and their tokens, against nonsense.
#include <gtest/gtest.h>

#include <random>

#include "engines/forward/openai/message.h"
#include "engines/forward/openai/sse_reader.h"
#include "engines/forward/openai/text_tokens.h"
#include "engines/forward/refusal.h"
#include "text/processor.h"

namespace weir::forward {
namespace {

// engines/llm/cpu/sampler.cc
uint64_t drawn(uint64_t seed, uint64_t number) {
  auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return mix(mix(seed + 0x9e3779b97f4a7c15) + (number + 1) * 0x9e3779b97f4a7c15);
}

TEST(ForwardCompletion, ALaterSeedDrawsOnWhereTheFirstOneStopped) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t seed = random(), draws = random() % 10'000, number = random() % 10'000;
    EXPECT_EQ(drawn(later_seed(seed, draws), number), drawn(seed, draws + number));
  }
  EXPECT_EQ(later_seed(7, 0), 7u);
}

void fill(msg::Call& out) {
  out.generation = std::make_unique<msg::Generation>();
  out.generation->append = {1, 2};
  out.generation->max_tokens = 10;
  out.generation->sampling.temperature = 0;
}

TEST(ForwardCompletion, ARequestIsThePromptAndWhatWasGenerated) {
  msg::Call asked;
  fill(asked);
  const std::vector<uint32_t> history{9}, generated{5, 6};
  asked.generation->history = history;
  asked.generation->min_tokens = 3;
  EXPECT_EQ(write_completion(asked, generated, "m\"x").view(),
            R"({"model":"m\"x","prompt":[9,1,2,5,6],"max_tokens":8,"min_tokens":1,"temperature":0.0,)"
            R"("return_token_ids":true,"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(ForwardCompletion, AChunkIsRead) {
  auto chunk = read_chunk(
      R"({"id":"x","choices":[{"index":0,"text":"ab","token_ids":[1,2],"logprobs":{"tokens":["token_id:1","token_id:2"],)"
      R"("token_logprobs":[-1,-2],"top_logprobs":[{"token_id:1":-1,"token_id:9":-3},null],"text_offset":[0,1]},)"
      R"("finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":null}})");
  ASSERT_TRUE(chunk.has_value()) << chunk.error().text;
  EXPECT_EQ(chunk->text, "ab");
  EXPECT_EQ(chunk->ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(chunk->finish, "length");
  EXPECT_EQ(chunk->completion_tokens, 2u);
  ASSERT_EQ(chunk->logprobs.size(), 2u);
  EXPECT_EQ(chunk->logprobs[0].token.id, 1u);
  ASSERT_EQ(chunk->logprobs[0].top.size(), 2u);
  EXPECT_EQ(chunk->logprobs[0].top[1].id, 9u);
  EXPECT_TRUE(chunk->logprobs[1].top.empty());
}

TEST(ForwardCompletion, AChunkHasNoMoreLogProbabilitiesThanItMayHaveTokens) {
  for (const char* entries : {R"({"content":[)", R"({"tokens":[)"}) {
    const bool objects = entries[2] == 'c';
    auto chunk_of = [&](size_t count) {
      std::string json = std::string(R"({"choices":[{"logprobs":)") + entries;
      for (size_t i = 0; i < count; ++i) json += std::string(i > 0 ? "," : "") + (objects ? "{}" : "\"\"");
      if (!objects) {
        json += R"(],"token_logprobs":[)";
        for (size_t i = 0; i < count; ++i) json += i > 0 ? ",0" : "0";
      }
      return json + "]}}]}";
    };
    EXPECT_EQ(read_chunk(chunk_of(7), 7).value().logprobs.size(), 7u);
    EXPECT_FALSE(read_chunk(chunk_of(8), 7));
    EXPECT_TRUE(read_chunk(chunk_of(kMostChunkLogprobs), SIZE_MAX));
    EXPECT_FALSE(read_chunk(chunk_of(kMostChunkLogprobs + 1), SIZE_MAX));
  }
}

TEST(ForwardCompletion, ListsOfModelsAreRead) {
  auto vllm = read_models(R"({"object":"list","data":[{"id":"a"},{"id":"m","max_model_len":4096}]})", "m");
  EXPECT_TRUE(vllm->found);
  EXPECT_EQ(vllm->max_length, 4096u);
  auto llama = read_models(R"({"data":[{"id":"m","meta":{"n_ctx_train":32768,"n_ctx":8192}}]})", "m");
  EXPECT_EQ(llama->max_length, 8192u);
  EXPECT_FALSE(read_models(R"({"data":null})", "m")->found);
  EXPECT_FALSE(read_models(R"({"data":[{"id":"m","max_model_len":-1}]})", "m").has_value());
}

TEST(ForwardCompletion, EventsAreReadHoweverTheyAreCut) {
  const std::string stream =
      ": hello\r\n\r\ndata: one\r\n\r\ndata:two\ndata: lines\n\nevent: x\nid: 7\ndata\n\n\rdata: last\r\r";
  const std::vector<std::string> expected{"one", "two\nlines", "", "last"};
  for (size_t cut = 1; cut <= stream.size(); ++cut) {
    SseReader reader(1024);
    std::vector<std::string> events;
    for (size_t at = 0; at < stream.size(); at += cut) {
      std::string_view piece = std::string_view(stream).substr(at, cut);
      while (reader.next(piece) == SseReader::Step::kEvent) events.emplace_back(reader.data());
    }
    EXPECT_EQ(events, expected) << cut;
  }
}

TEST(ForwardCompletion, AnEventWithoutEndIsRefused) {
  for (const std::string line : {"data: x\n", ": x\n", "x"}) {
    SseReader reader(1000);
    auto step = SseReader::Step::kMore;
    for (int i = 0; i < 2000 && step == SseReader::Step::kMore; ++i) {
      std::string_view piece = line;
      step = reader.next(piece);
    }
    EXPECT_EQ(step, SseReader::Step::kLarge) << line;
  }
}

TEST(ForwardCompletion, NonsenseIsAnErrorOrAChunkAndNothingElse) {
  std::mt19937_64 random(1);
  const std::string good =
      R"({"choices":[{"text":"a","token_ids":[1],"logprobs":{"content":[{"id":1,"token":"a","logprob":-1,)"
      R"("top_logprobs":[{"id":1,"logprob":-1}]}]},"finish_reason":"stop"}],"usage":{"completion_tokens":1},"error":null})";
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = good;
    for (uint64_t changes = random() % 4; changes > 0; --changes) bytes[random() % bytes.size()] = char(random());
    bytes.resize(random() % 3 == 0 ? random() % bytes.size() : bytes.size());
    (void)read_chunk(bytes);
    (void)read_models(bytes, "m");
    (void)error_of(500, bytes, bytes);
  }
}

// A tokenizer that puts a space before each text, as Llama 2's: "▁" is id 0.
std::shared_ptr<const text::Processor> spaced() {
  std::string vocab = R"("▁":0,"a":1,"b":2,"\n":3,"▁a":4)";
  auto processor =
      text::make_processor(R"({"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},)"
                           R"("decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},)"
                           R"("model":{"type":"BPE","vocab":{)" +
                               vocab + R"(},"merges":["▁ a"]}})",
                           "", "");
  EXPECT_TRUE(processor.has_value()) << processor.error().text;
  return *processor;
}

TEST(ForwardCompletion, TextBecomesIdsThatDecodeToIt) {
  const auto codec = spaced();
  TextTokens tokens(*codec);
  std::vector<uint32_t> all = codec->encode("b", msg::AddSpecial::kNo);
  for (const char* piece : {"a", "b", " a", "", " ", "\n", "ab a"})
    for (uint32_t id : tokens.push(piece)) all.push_back(id);
  EXPECT_EQ(codec->decode(all, msg::SkipSpecial::kNo), "bab a \nab a");
}

}  // namespace
}  // namespace weir::forward
