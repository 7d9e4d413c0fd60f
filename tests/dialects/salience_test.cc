#include "dialects/salience/salience.h"

#include <gtest/gtest.h>

#include <cmath>

#include "salience_bench.h"

namespace weir::salience {
namespace {

using Code = base::Code;
using Ids = std::vector<uint32_t>;
using namespace std::chrono_literals;

int number(Code code) { return int(code); }
std::string show(const Bench::Opened& x) {
  std::string out;
  for (const auto& event : Bench::events(*x)) out += event.ShortDebugString() + "\n";
  return out;
}
Ids appended(const msg::Call& call) { return call.generation->append; }
Ids history(const msg::Call& call) { return {call.generation->history.begin(), call.generation->history.end()}; }

// ---- Sessions

TEST(Salience, OpenSessionChecksTheModel) {
  Bench t;
  auto open = [&](std::string model) {
    pb::OpenSessionRequest request;
    request.set_model(model);
    return t.ask<pb::OpenSessionResponse>("OpenSession", request);
  };
  auto good = open("chat");
  EXPECT_EQ(good.status, 0);
  EXPECT_EQ(good.response.session_id().size(), 32u);
  EXPECT_EQ(good.response.max_model_len(), 100u);
  EXPECT_EQ(open("").status, 0);  // there is but one
  EXPECT_EQ(open("chatt").status, number(Code::kNotFound));
  auto tensors = open("tensors");
  EXPECT_EQ(tensors.status, number(Code::kFailedPrecondition));
  EXPECT_EQ(tensors.text, "model 'tensors' does not make tokens");
  t.add("second", text_spec());
  t.publish();
  EXPECT_EQ(open("").text, "several models make tokens: name one of chat, second");
  t.catalog->models.clear();
  t.publish();
  EXPECT_EQ(open("").status, number(Code::kNotFound));
}

TEST(Salience, TheDefaultModelIsASetting) {
  Bench t({"second", {}});
  auto other = text_spec();
  other->concepts = {"other"};
  t.add("second", other);
  t.publish();
  auto manifest = t.ask<pb::ReadoutManifest>("GetReadoutManifest", pb::GetReadoutManifestRequest());
  EXPECT_EQ(manifest.response.ShortDebugString(),
            "concepts: \"other\" layers: 1 layers: 3 hidden_size: 64 dtype: \"float32\"");
}

TEST(Salience, ClosingIsIdempotent) {
  Bench t;
  auto id = t.open();
  for (auto name : {id, id, std::string("0123456789abcdef0123456789abcdef"), std::string("nonsense"), std::string()}) {
    pb::CloseSessionRequest request;
    request.set_session_id(name);
    EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", request).status, 0) << name;
  }
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1)).code, number(Code::kNotFound));
}

TEST(Salience, AForkGoesItsOwnWay) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3, 4});
  pb::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_at_position(3);
  auto fork = t.ask<pb::ForkSessionResponse>("ForkSession", request);
  ASSERT_EQ(fork.status, 0);
  t.grow(fork.response.session_id(), 3, {9});
  EXPECT_EQ(t.dump(fork.response.session_id()), (Ids{1, 2, 3, 9}));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3, 4}));
  request.set_at_position(5);
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", request).status, number(Code::kFailedPrecondition));
  request.set_session_id("x");
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", request).status, number(Code::kNotFound));
}

TEST(Salience, ABrokenMessageIsRefused) {
  Bench t;
  for (std::string method :
       {"OpenSession", "CloseSession", "ForkSession", "DumpSession", "GetReadoutManifest", "Generate"}) {
    auto x = t.shards[0]->wire.run("/salience.v1.Salience/" + method, support::grpc_frame("\x0a\xff"));
    EXPECT_EQ(support::grpc_status(*x), number(Code::kInvalidArgument)) << method;
  }
  auto x = t.shards[0]->wire.run("/salience.v1.Salience/OpenSession",
                                 support::grpc_frame(std::string("\x0a\x80\x80\x08", 4) + std::string(1 << 17, 'x')));
  EXPECT_EQ(support::grpc_status(*x), number(Code::kInvalidArgument));
}

// ---- Generate

TEST(Salience, TokensStreamAndTheSessionGrows) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {5, 6, 7}, 10));
  EXPECT_EQ(history(t.call()), Ids{});
  EXPECT_EQ(appended(t.call()), (Ids{5, 6, 7}));
  EXPECT_EQ(session::text(t.call().session), id);
  t.token(8, 3);
  EXPECT_EQ(show(x), "token { id: 8 position: 3 }\n");
  t.token(2, 4);
  t.finish();
  EXPECT_EQ(show(x),
            "token { id: 8 position: 3 }\ntoken { id: 2 position: 4 }\n"
            "done { prompt_tokens: 3 completion_tokens: 2 total_tokens: 5 finish_reason: FINISH_REASON_EOS }\n");
  EXPECT_EQ(support::grpc_status(*x), 0);
  EXPECT_EQ(t.dump(id), (Ids{5, 6, 7, 8, 2}));
  auto more = t.generate(Bench::request(id, 5, {}, 1));
  EXPECT_EQ(history(t.call()), (Ids{5, 6, 7, 8, 2}));
  t.token(9, 5);
  t.finish({msg::Done{5, 0, 1, msg::Finish::kLength, 0}});
  EXPECT_EQ(Bench::events(*more).back().done().finish_reason(), pb::GenerateDone::FINISH_REASON_LENGTH);
}

TEST(Salience, WhatIsAskedForReachesTheEngine) {
  Bench t;
  auto id = t.open();
  auto r = Bench::request(id, 0, {1, 2}, 1000);
  r.set_temperature(0.5f), r.set_top_p(0.25f), r.set_top_k(3), r.set_priority(10), r.set_logprob_top_k(4);
  r.add_stop_token_ids(77);
  for (auto [start, end] : {std::pair(7, 9), {0, 2}, {1, 4}, {4, 5}}) {
    auto* range = r.add_logprobs_ranges();
    range->set_start(uint32_t(start)), range->set_end(uint32_t(end));
  }
  r.add_readout_ranges()->set_end(4294967295u);
  auto x = t.generate(r);
  const msg::Generation& g = *t.call().generation;
  EXPECT_EQ(g.max_tokens, 98u);  // what the context has room for
  EXPECT_EQ(g.sampling.temperature, 0.5f);
  EXPECT_EQ(g.sampling.top_p, 0.25f);
  EXPECT_EQ(g.sampling.top_k, 3u);
  EXPECT_EQ(g.stop_ids, Ids{77});
  EXPECT_EQ(g.top_logprobs, 4u);
  ASSERT_EQ(g.logprobs.size(), 2u);
  EXPECT_TRUE(g.logprobs[0].start == 0 && g.logprobs[0].end == 5 && g.logprobs[1].start == 7);
  ASSERT_EQ(g.readouts.size(), 1u);
  EXPECT_EQ(t.call().priority, 11u);
  EXPECT_EQ(t.call().deadline, base::kNever);
  t.finish();
  auto y = t.generate(Bench::request(id, 2, {1}, 1));
  EXPECT_EQ(t.call().generation->sampling.temperature, 1.0f);
  EXPECT_EQ(t.call().generation->sampling.top_p, 1.0f);
  EXPECT_EQ(t.call().priority, 1u);
}

TEST(Salience, ATokenCarriesWhatItsPositionWasAskedFor) {
  Bench t;
  auto id = t.open();
  auto r = Bench::request(id, 0, {1, 2}, 0);
  r.add_readout_ranges()->set_end(2);
  auto x = t.generate(r);
  auto details = std::make_shared<msg::TokenDetails>();
  details->readout = {0.5f, -1, 0, 2};
  t.token(1, 0, true, details);
  auto second = std::make_shared<msg::TokenDetails>(*details);
  second->has_logprob = true, second->logprob = -0.25f, second->top = {{2, -0.25f}, {0, -3}};
  t.token(2, 1, true, second);
  t.finish({msg::Done{2, 0, 0, msg::Finish::kNone, 0}});
  EXPECT_EQ(
      show(x),
      "token { id: 1 is_prefill: true readout: 0.5 readout: -1 readout: 0 readout: 2 }\n"
      "token { id: 2 position: 1 is_prefill: true readout: 0.5 readout: -1 readout: 0 readout: 2 "
      "logprobs { id: 2 logprob: -0.25 } logprobs { logprob: -3 } sampled_logprob: -0.25 has_sampled_logprob: true }\n"
      "done { prompt_tokens: 2 total_tokens: 2 finish_reason: FINISH_REASON_LENGTH }\n");
  EXPECT_EQ(t.dump(id), (Ids{1, 2}));
}

TEST(Salience, DriftIsRefusedWithTheLengthAndChangesNothing) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  for (auto [offset, truncating] : {std::pair(2u, false), {4u, false}, {4u, true}, {4294967295u, true}}) {
    auto r = Bench::request(id, offset, {9}, 1);
    r.set_truncating(truncating);
    auto refusal = t.refused(r);
    EXPECT_EQ(refusal.code, number(Code::kFailedPrecondition));
    EXPECT_EQ(refusal.reason, "OFFSET_MISMATCH");
    EXPECT_EQ(refusal.metadata.at("length"), "3");
    EXPECT_NE(refusal.text.find("has 3 tokens"), std::string::npos);
  }
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
  auto r = Bench::request(id, 1, {9}, 0);
  r.set_truncating(true);
  auto x = t.generate(r);
  EXPECT_EQ(history(t.call()), Ids{1});
  t.finish();
  EXPECT_EQ(t.dump(id), (Ids{1, 9}));
}

TEST(Salience, ASecondGenerateIsAborted) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 1));
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1)).code, number(Code::kAborted));
  t.finish();
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1)).reason, "OFFSET_MISMATCH");
}

TEST(Salience, AGenerateOfNothingIsDoneAtOnceAndCountsAsUse) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  t.shards[0]->wire.env.advance(29min);
  auto x = t.generate(Bench::request(id, 3, {}, 0));
  EXPECT_EQ(show(x), "done { prompt_tokens: 3 total_tokens: 3 finish_reason: FINISH_REASON_LENGTH }\n");
  EXPECT_TRUE(t.chat().held.empty());
  t.shards[0]->wire.env.advance(29min);
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
  auto r = Bench::request(id, 2, {}, 0);  // a rewind alone needs no engine either
  r.set_truncating(true);
  EXPECT_EQ(show(t.generate(r)), "done { prompt_tokens: 2 total_tokens: 2 finish_reason: FINISH_REASON_LENGTH }\n");
  EXPECT_EQ(t.dump(id), (Ids{1, 2}));
  t.shards[0]->wire.env.advance(31min);
  t.run();
  EXPECT_EQ(t.refused(Bench::request(id, 2, {}, 0)).reason, "SESSION_NOT_FOUND");
  EXPECT_EQ(t.chat().released.size(), 1u);
}

TEST(Salience, AFullContextIsExhausted) {
  Bench t;
  auto id = t.open();
  auto full = t.refused(Bench::request(id, 0, Ids(101, 1), 0));
  EXPECT_EQ(full.code, number(Code::kResourceExhausted));
  EXPECT_EQ(full.reason, "CONTEXT_OVERFLOW");
  EXPECT_EQ(t.refused(Bench::request(id, 0, Ids(100, 1), 1)).code, number(Code::kResourceExhausted));
  t.grow(id, 0, Ids(100, 1));
  EXPECT_EQ(t.refused(Bench::request(id, 100, {1}, 0)).code, number(Code::kResourceExhausted));
}

TEST(Salience, BadFieldsAreNamedWithValueAndRange) {
  Bench t;
  auto id = t.open();
  auto with = [&](auto change) {
    auto r = Bench::request(id, 0, {1, 2}, 1);
    change(r);
    auto refusal = t.refused(r);
    EXPECT_EQ(refusal.code, number(Code::kInvalidArgument)) << r.ShortDebugString();
    return refusal.text;
  };
  auto range = [](pb::PositionRange* r, uint32_t start, uint32_t end) { r->set_start(start), r->set_end(end); };
  EXPECT_EQ(with([](auto& r) { r.set_temperature(-1); }), "temperature is -1; expected 0.0 to 100");
  EXPECT_EQ(with([](auto& r) { r.set_temperature(NAN); }), "temperature is nan; expected 0.0 to 100");
  EXPECT_EQ(with([](auto& r) { r.set_temperature(INFINITY); }), "temperature is inf; expected 0.0 to 100");
  EXPECT_EQ(with([](auto& r) { r.set_top_p(1.5f); }), "top_p is 1.5; expected 0.0 to 1.0");
  EXPECT_EQ(with([](auto& r) { r.set_top_p(-0.5f); }), "top_p is -0.5; expected 0.0 to 1.0");
  EXPECT_EQ(with([](auto& r) { r.set_priority(-1); }), "priority is -1; expected 0 (interactive) to 10 (batch)");
  EXPECT_EQ(with([](auto& r) { r.set_priority(11); }), "priority is 11; expected 0 (interactive) to 10 (batch)");
  EXPECT_EQ(with([](auto& r) { r.set_priority(INT32_MIN); }),
            "priority is -2147483648; expected 0 (interactive) to 10 (batch)");
  EXPECT_EQ(with([](auto& r) { r.set_logprob_top_k(129); }), "logprob_top_k is 129; expected at most 128");
  EXPECT_EQ(with([](auto& r) { r.set_append_tokens(1, 1000); }),
            "append_tokens[1] is 1000; the model's tokens are below 1000");
  EXPECT_EQ(with([](auto& r) { r.add_stop_token_ids(UINT32_MAX); }),
            "stop_token_ids[0] is 4294967295; the model's tokens are below 1000");
  EXPECT_EQ(with([](auto& r) {
              for (int i = 0; i < 65; ++i) r.add_stop_token_ids(1);
            }),
            "stop_token_ids has more than 64 entries");
  EXPECT_EQ(with([&](auto& r) { range(r.add_logprobs_ranges(), 2, 2); }),
            "logprobs_ranges[0] is [2, 2); expected start < end");
  EXPECT_EQ(with([&](auto& r) {
              range(r.add_readout_ranges(), 1, 2);
              range(r.add_readout_ranges(), 5, 2);
            }),
            "readout_ranges[1] is [5, 2); expected start < end");
  EXPECT_EQ(with([&](auto& r) {
              for (int i = 0; i < 1025; ++i) range(r.add_readout_ranges(), 1, 2);
            }),
            "readout_ranges has more than 1024 entries");
  EXPECT_EQ(with([&](auto& r) { r.clear_append_tokens(); }),
            "append_tokens is empty, and so is the session: there is nothing to go on from");
  EXPECT_EQ(t.dump(id), Ids{});
}

TEST(Salience, NumbersBeyondTheirTypeAreNotCut) {
  Bench t;
  auto id = t.open();
  std::string message = "\x0a\x20" + id;
  auto x = t.shards[0]->wire.run("/salience.v1.Salience/Generate",
                                 support::grpc_frame(message + std::string("\x12\x06\x01\x80\x80\x80\x80\x10", 8)));
  EXPECT_EQ(support::grpc_message(*x), "append_tokens[1] is 4294967296; expected at most 4294967295");
  auto y = t.shards[0]->wire.run(
      "/salience.v1.Salience/Generate",
      support::grpc_frame(message + std::string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)));
  EXPECT_EQ(support::grpc_message(*y), "offset is 18446744073709551615; expected at most 4294967295");
}

TEST(Salience, UnknownForeignAndMalformedIdsReadTheSame) {
  Bench t({"", {"alpha", "beta"}});
  Bench::Headers alpha{{"authorization", "Bearer alpha"}}, beta{{"authorization", "bearer beta"}};
  auto id = t.ask<pb::OpenSessionResponse>("OpenSession", pb::OpenSessionRequest(), 0, alpha).response.session_id();
  ASSERT_EQ(id.size(), 32u);
  for (const auto& name : {id, std::string(32, '0'), std::string("short"), std::string()}) {
    auto x = t.generate(Bench::request(name, 0, {1}, 1), 0, beta);
    EXPECT_EQ(support::grpc_status(*x), number(Code::kNotFound));
    EXPECT_EQ(support::grpc_message(*x), "there is no such session");
    pb::DumpSessionRequest dump;
    dump.set_session_id(name);
    EXPECT_EQ(t.ask<pb::DumpSessionResponse>("DumpSession", dump, 0, beta).text, "there is no such session");
  }
  auto x = t.generate(Bench::request(id, 0, {1}, 1), 0, alpha);
  EXPECT_EQ(t.call().generation->cache_salt, 1u);
}

TEST(Salience, ASecretIsWantedWhereThereIsOne) {
  Bench t({"", {"alpha"}});
  for (const Bench::Headers& headers : {Bench::Headers{},
                                        {{"authorization", ""}},
                                        {{"authorization", "alpha"}},
                                        {{"authorization", "Bearer "}},
                                        {{"authorization", "Bearer alph"}},
                                        {{"authorization", "Bearer alphaalpha"}},
                                        {{"authorization", "Basic alpha"}}}) {
    EXPECT_EQ(t.ask<pb::OpenSessionResponse>("OpenSession", pb::OpenSessionRequest(), 0, headers).status,
              number(Code::kUnauthenticated));
    EXPECT_EQ(support::grpc_status(*t.generate(Bench::request("", 0, {}, 0), 0, headers)),
              number(Code::kUnauthenticated));
  }
}

// ---- Images

struct Picture {
  uint32_t start, end;
  std::string data = "4", mime = "image/png";
};
pb::GenerateRequest with_images(const std::string& id, uint32_t offset, const Ids& tokens,
                                std::vector<Picture> pictures) {
  auto r = Bench::request(id, offset, tokens, 0);
  for (const auto& p : pictures) {
    auto* image = r.add_images();
    image->set_bytes(p.data), image->set_mime(p.mime);
    image->set_pad_range_start(p.start), image->set_pad_range_end(p.end);
  }
  return r;
}
const Ids kBlock{7, 900, 901, 901, 901, 901, 902, 8};  // the image at [1, 7)

TEST(SalienceImages, ComeAlongAndAreNotCut) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  auto x = t.generate(with_images(id, 2, kBlock, {{3, 9}}));
  ASSERT_EQ(t.call().generation->images.size(), 1u);
  EXPECT_EQ(t.call().generation->images[0].data.view(), "4");
  t.finish();
  EXPECT_EQ(support::grpc_status(*x), 0);
  for (uint32_t at : {4u, 8u}) {
    auto r = Bench::request(id, at, {5}, 0);
    r.set_truncating(true);
    auto refusal = t.refused(r);
    EXPECT_EQ(refusal.reason, "IMAGE_SPLIT");
    EXPECT_EQ(refusal.metadata.at("start"), "3");
    EXPECT_EQ(refusal.metadata.at("length"), "10");
  }
  pb::ForkSessionRequest fork;
  fork.set_session_id(id), fork.set_at_position(9);
  auto child = t.ask<pb::ForkSessionResponse>("ForkSession", fork).response.session_id();
  auto y = t.generate(Bench::request(child, 9, {5}, 0));
  ASSERT_EQ(t.call().generation->history_images.size(), 1u);
  EXPECT_EQ(t.call().generation->history_images[0].start, 3u);
  t.finish();
  fork.set_at_position(5);
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", fork).status, number(Code::kFailedPrecondition));
}

TEST(SalienceImages, BlocksThatAreNotWhatTheyShouldBeAreRefused) {
  Bench t;
  auto id = t.open();
  auto refused = [&](const Ids& tokens, std::vector<Picture> pictures) {
    auto refusal = t.refused(with_images(id, 0, tokens, std::move(pictures)));
    EXPECT_EQ(refusal.code, number(Code::kInvalidArgument));
    return refusal.text;
  };
  auto pads = t.refused(with_images(id, 0, kBlock, {{1, 7, "5"}}));
  EXPECT_EQ(pads.text, "images[0]: the block has 4 pads, but the encoder makes 5 features of this image");
  EXPECT_EQ(pads.metadata, (std::map<std::string, std::string>{{"expected", "5"}, {"given", "4"}}));
  EXPECT_EQ(refused(kBlock, {}), "append_tokens[2] is an image pad outside of every declared block");
  EXPECT_EQ(refused(kBlock, {{1, 7, "broken"}}), "images[0]: not a PNG");
  EXPECT_EQ(refused(kBlock, {{1, 7, "4", "image/gif"}}),
            "images[0].mime: expected image/png, image/jpeg or image/webp");
  EXPECT_EQ(refused(kBlock, {{1, 7, ""}}), "images[0].bytes is empty");
  EXPECT_EQ(refused(kBlock, {{0, 7}}), "images[0]: position 0 must be vision_start (900), but is 7");
  EXPECT_EQ(refused(kBlock, {{1, 8}}), "images[0]: position 6 must be an image pad (901), but is 902");
  EXPECT_EQ(refused(kBlock, {{1, 6}}), "images[0]: position 5 must be vision_end (902), but is 901");
  EXPECT_EQ(refused(kBlock, {{1, 9}}), "images[0]: its block [1, 9) must lie in order within what is appended: [0, 8)");
  EXPECT_EQ(refused(kBlock, {{7, 1}}),
            "images[0]: its block [7, 1) must hold at least vision_start, a pad and vision_end");
  EXPECT_EQ(refused(kBlock, {{1, 7}, {1, 7}}),
            "images[1]: its block [1, 7) must lie in order within what is appended: [7, 8)");
  EXPECT_EQ(refused(kBlock, {{1, 4294967295u}}).substr(0, 39), "images[0]: its block [1, 4294967295) mu");
  EXPECT_EQ(refused(kBlock, std::vector<Picture>(17, Picture{1, 7})), "images has more than 16 entries");
  t.grow(id, 0, {1, 2, 3});
  EXPECT_EQ(t.refused(with_images(id, 3, kBlock, {{1, 7}})).code, number(Code::kInvalidArgument));  // in the history
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
}

TEST(SalienceImages, AModelWithoutEyesOrConceptsSaysSo) {
  Bench t;
  auto plain = text_spec();
  plain->vision.reset();
  plain->concepts.clear();
  t.add("plain", plain);
  t.publish();
  auto id = t.open("plain");
  EXPECT_EQ(t.refused(with_images(id, 0, kBlock, {{1, 7}})).text, "model 'plain' does not see images");
  auto r = Bench::request(id, 0, {1}, 1);
  r.add_readout_ranges()->set_end(1);
  EXPECT_EQ(t.refused(r).text, "model 'plain' has no concept readouts");
}

// ---- What goes wrong on the way

TEST(SalienceEnds, AFailureBeforeTheFirstTokenLeavesWhatLiesBeforeTheOffset) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  auto r = Bench::request(id, 1, {9}, 5);
  r.set_truncating(true);
  auto x = t.generate(r);
  t.finish({msg::Failed{base::failure(Code::kResourceExhausted, "no blocks are left")}});
  EXPECT_EQ(support::grpc_message(*x), "no blocks are left");
  EXPECT_EQ(t.dump(id), Ids{1});
  auto again = t.generate(r);  // the same request is as good as before
  t.token(4, 2);
  t.finish();
  EXPECT_EQ(t.dump(id), (Ids{1, 9, 4}));
}

TEST(SalienceEnds, AFailureAfterATokenKeepsWhatWasSent) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1, 2}, 5));
  t.token(3, 2);
  t.finish({msg::Failed{base::failure(Code::kInternal, "the engine broke")}});
  EXPECT_EQ(support::grpc_status(*x), number(Code::kInternal));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
  EXPECT_EQ(t.refused(Bench::request(id, 2, {1}, 1)).metadata.at("length"), "3");
}

TEST(SalienceEnds, AClientThatLeavesKeepsTheSessionBusyUntilTheEngineLetsGo) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  auto x = t.generate(Bench::request(id, 2, {3}, 5));
  t.token(4, 3);
  x.reset();  // the client is gone
  EXPECT_TRUE(t.call().cancelled);
  EXPECT_EQ(t.chat().pokes, 1);
  EXPECT_EQ(t.refused(Bench::request(id, 4, {1}, 1)).code, number(Code::kAborted));
  t.token(5, 4);  // nobody has seen this one
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(t.shards[0]->bus.in_flight(), 0u);
}

TEST(SalienceEnds, AClientThatLeavesBeforeTheFirstTokenHasChangedNothing) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  t.generate(Bench::request(id, 2, {3}, 0)).reset();
  t.finish();  // the engine was done already
  EXPECT_EQ(t.dump(id), (Ids{1, 2}));
}

TEST(SalienceEnds, ABusyServerChangesNothing) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  t.shards[0]->bus.close();
  auto r = Bench::request(id, 1, {9}, 5);
  r.set_truncating(true);
  EXPECT_EQ(t.refused(r).code, number(Code::kUnavailable));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
}

TEST(SalienceEnds, AClientsDeadlineIsACancellation) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 5), 0, {{"grpc-timeout", "50m"}});
  t.token(4, 1);
  t.shards[0]->wire.advance(*x, 60ms);
  EXPECT_EQ(support::grpc_status(*x), number(Code::kDeadlineExceeded));
  EXPECT_TRUE(t.call().cancelled);
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(t.dump(id), (Ids{1, 4}));
}

TEST(SalienceEnds, ClosingTheSessionEndsWhatRunsInIt) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 5));
  pb::CloseSessionRequest close;
  close.set_session_id(id);
  EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", close).status, 0);
  EXPECT_TRUE(t.call().cancelled);
  EXPECT_TRUE(t.chat().released.empty());
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(support::grpc_status(*x), number(Code::kAborted));
  EXPECT_EQ(t.chat().released.size(), 1u);
  EXPECT_EQ(t.shards[0]->sessions.table().sessions(), 0u);
}

TEST(SalienceEnds, AModelThatWasReplacedNeedsANewSession) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1});
  TextInbox* old = &t.chat();
  t.add("chat", text_spec());
  t.publish();
  EXPECT_EQ(t.refused(Bench::request(id, 1, {1}, 1)).reason, "MODEL_GONE");
  EXPECT_EQ(t.dump(id), Ids{1});
  t.shards[0]->wire.env.advance(31min);
  EXPECT_TRUE(old->released.empty() && t.chat().released.empty());
}

TEST(SalienceEnds, CreditComesBackAsThePeerReads) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 99));
  EXPECT_EQ(t.call().credit, 64);
  for (uint32_t i = 0; i < 31; ++i) t.token(1, 1 + i);
  EXPECT_EQ(t.call().credit, 64);
  t.token(1, 32);
  EXPECT_EQ(t.call().credit, 96);
  x->fake_backlog = wire::Exchange::kHighWater + 1;
  for (uint32_t i = 0; i < 40; ++i) t.token(1, 33 + i);
  EXPECT_EQ(t.call().credit, 96);
  x->reader()->on_drain(*x);
  EXPECT_EQ(t.call().credit, 136);
  t.finish();
}

// ---- Across shards

TEST(SalienceShards, ASessionIsReachedFromEveryShard) {
  Bench t({}, 3);
  auto id = t.open("chat", 1);
  auto x = t.generate(Bench::request(id, 0, {1, 2}, 2), 2);
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1), 0).code, number(Code::kAborted));
  t.token(3, 2);
  t.finish();
  EXPECT_EQ(show(x),
            "token { id: 3 position: 2 }\n"
            "done { prompt_tokens: 2 completion_tokens: 1 total_tokens: 3 finish_reason: FINISH_REASON_EOS }\n");
  EXPECT_EQ(t.dump(id, 0), (Ids{1, 2, 3}));
  EXPECT_EQ(t.refused(Bench::request(id, 1, {1}, 1), 0).metadata.at("length"), "3");
  pb::CloseSessionRequest close;
  close.set_session_id(id);
  EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", close, 0).status, 0);
  EXPECT_EQ(t.refused(Bench::request(id, 3, {1}, 1), 2).code, number(Code::kNotFound));
  EXPECT_EQ(t.chat().released.size(), 1u);
}

TEST(SalienceShards, AClientMayLeaveWhileItsQuestionIsOnTheWay) {
  Bench t({}, 2);
  auto id = t.open("chat", 0);
  auto message = support::grpc_frame(Bench::request(id, 0, {1}, 1).SerializeAsString());
  auto x = t.shards[1]->wire.run("/salience.v1.Salience/Generate", message);
  x.reset();
  t.run();
  EXPECT_TRUE(t.chat().held.empty());
  pb::DumpSessionRequest dump;
  dump.set_session_id(id);
  t.shards[1]->wire.run("/salience.v1.Salience/DumpSession", support::grpc_frame(dump.SerializeAsString())).reset();
  t.run();
  auto y = t.generate(Bench::request(id, 0, {1}, 1), 1);
  EXPECT_EQ(t.chat().held.size(), 1u);
}

}  // namespace
}  // namespace weir::salience
