// Stop strings: text that ends a Generate, found in tokens.
#include <gtest/gtest.h>

#include "bench.h"
#include "text/processor.h"
#include "tiny_tokenizers.h"

namespace weir::salience {
namespace {

using Code = base::Code;

// A model whose tokens are bytes.
struct Spelling : Bench {
  TextInbox& model;
  Spelling() : model(add("bytes", spec())) { publish(); }
  ~Spelling() {
    while (!model.held.empty()) model.emit(model.held.back(), {msg::Done{}});
    run();
  }

  static std::shared_ptr<msg::TextSpec> spec() {
    auto text = text_spec();
    auto processor = std::make_shared<text::Processor>();
    processor->tokenizer = tokenizers::tokenizer_of(tokenizers::byte_level_file({"l l", "o w"}));
    text->codec = processor;
    return text;
  }
  static pb::GenerateRequest asked(const std::string& id, std::vector<std::string> stops) {
    auto r = request(id, 0, {'a', 'E'}, 50);
    for (auto& s : stops) r.add_stop_strings(std::move(s));
    return r;
  }
  // The model says that much before it hears that it is to stop.
  void emit(std::string_view text) {
    uint32_t at = uint32_t(model.held.at(0)->generation->length());
    for (char c : text) model.emit(model.held[0], {msg::Token{uint8_t(c), at++, false, nullptr}});
    run();
  }
  void end(msg::Event event) {
    model.emit(model.held.at(0), std::move(event));
    run();
  }
};

TEST(SalienceStop, AStopStringEndsTheGenerationWithItsLastToken) {
  Spelling t;
  auto id = t.open("bytes");
  auto x = t.generate(Spelling::asked(id, {"xyz", "END"}));
  t.emit("NDoENDmore");
  EXPECT_TRUE(t.model.held.at(0)->cancelled) << "the engine is told at once";
  EXPECT_FALSE(x->ended) << "the client hears of it when the engine has let go";
  t.end({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(support::grpc_status(*x), 0) << support::grpc_message(*x);
  auto events = Bench::events(*x);
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events.back().ShortDebugString(),
            "done { prompt_tokens: 2 completion_tokens: 6 total_tokens: 8 finish_reason: FINISH_REASON_STOP_STRING }")
      << "the prompt's E and the answer's ND are no stop string";
  EXPECT_EQ(t.dump(id), (Ids{'a', 'E', 'N', 'D', 'o', 'E', 'N', 'D'}));
}

TEST(SalienceStop, WithTheVeryLastTokenItIsStillTheStopString) {
  Spelling t;
  auto id = t.open("bytes");
  auto x = t.generate(Spelling::asked(id, {"!"}));
  t.emit("a!");
  t.end({msg::Done{2, 0, 2, msg::Finish::kLength, 0}});
  EXPECT_EQ(Bench::events(*x).back().done().finish_reason(), pb::GenerateDone::FINISH_REASON_STOP_STRING);
}

TEST(SalienceStop, WithoutItTheGenerationEndsAsEver) {
  Spelling t;
  auto id = t.open("bytes");
  auto x = t.generate(Spelling::asked(id, {"END"}));
  t.emit("EN");
  t.end({msg::Done{2, 0, 2, msg::Finish::kEos, 2}});
  EXPECT_EQ(Bench::events(*x).back().done().finish_reason(), pb::GenerateDone::FINISH_REASON_EOS);
}

TEST(SalienceStop, StopStringsAreBounded) {
  Spelling t;
  auto id = t.open("bytes");
  EXPECT_EQ(t.refused(Spelling::asked(id, {""})).text, "stop_strings: a stop string is empty");
  EXPECT_EQ(t.refused(Spelling::asked(id, {"a", std::string(4096, 'x')})).text,
            "stop_strings: the strings have more than 4096 bytes");
  EXPECT_EQ(t.refused(Spelling::asked(id, std::vector<std::string>(65, "x"))).text, "stop_strings: at most 64 strings");
}

}  // namespace
}  // namespace weir::salience
