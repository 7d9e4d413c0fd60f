// Generate: what it asks of the engine, what it streams, what it refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "bench.h"
#include "dialects/salience/turn_request.h"
#include "marshal/pb_wire.h"
#include "support/generation_cases.h"

namespace weir::salience {
namespace {

using Code = base::Code;
using namespace std::chrono_literals;

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
  EXPECT_EQ(with([](auto& r) { r.set_temperature(-1); }), "temperature must be >= 0 and <= 100, not -1");
  EXPECT_EQ(with([](auto& r) { r.set_temperature(NAN); }), "temperature must be >= 0 and <= 100, not nan");
  EXPECT_EQ(with([](auto& r) { r.set_temperature(INFINITY); }), "temperature must be >= 0 and <= 100, not inf");
  EXPECT_EQ(with([](auto& r) { r.set_top_p(1.5f); }), "top_p must be >= 0 and <= 1, not 1.5");
  EXPECT_EQ(with([](auto& r) { r.set_top_p(-0.5f); }), "top_p must be >= 0 and <= 1, not -0.5");
  EXPECT_EQ(with([](auto& r) { r.set_priority(-1); }), "priority must be 0 (interactive) to 10 (batch), not -1");
  EXPECT_EQ(with([](auto& r) { r.set_priority(11); }), "priority must be 0 (interactive) to 10 (batch), not 11");
  EXPECT_EQ(with([](auto& r) { r.set_priority(INT32_MIN); }),
            "priority must be 0 (interactive) to 10 (batch), not -2147483648");
  EXPECT_EQ(with([](auto& r) { r.set_logprob_top_k(129); }),
            "logprob_top_k must be a whole number >= 0 and <= 128, not 129");
  EXPECT_EQ(with([](auto& r) { r.set_append_tokens(1, 1000); }),
            "append_tokens[1] is 1000; the model's tokens are below 1000");
  EXPECT_EQ(with([](auto& r) { r.add_stop_token_ids(UINT32_MAX); }),
            "stop_token_ids[0] is 4294967295; the model's tokens are below 1000");
  EXPECT_EQ(with([](auto& r) {
              for (int i = 0; i < 65; ++i) r.add_stop_token_ids(1);
            }),
            "stop_token_ids must have at most 64 entries");
  EXPECT_EQ(with([&](auto& r) { range(r.add_logprobs_ranges(), 3, 2); }),
            "logprobs_ranges[0] must have start <= end, not [3, 2)");
  EXPECT_EQ(with([&](auto& r) {
              range(r.add_readout_ranges(), 1, 2);
              range(r.add_readout_ranges(), 5, 2);
            }),
            "readout_ranges[1] must have start <= end, not [5, 2)");
  EXPECT_EQ(with([&](auto& r) {
              for (int i = 0; i < 1025; ++i) range(r.add_readout_ranges(), 1, 2);
            }),
            "readout_ranges must have at most 1024 entries");
  EXPECT_EQ(with([&](auto& r) { r.clear_append_tokens(); }),
            "append_tokens is empty, and so is the session: there is nothing to go on from");
  EXPECT_EQ(t.dump(id), Ids{});
}

TEST(Salience, EveryGenerationParameterIsTakenInItsRangeAndRefusedByName) {
  for (const auto& c : support::pb_cases(marshal::Protocol::kSalience)) {
    auto params = read_request(base::Bytes::copy_of(c.value));
    EXPECT_EQ(bool(params), c.good) << c.name;
    EXPECT_TRUE(params || params.error().text.starts_with(c.name)) << c.name;
  }
}

TEST(Salience, ARequestHasSoManyFields) {
  auto text = [](const std::string& message) {
    auto request = read_request(base::Bytes::copy_of(message));
    return request ? std::string() : request.error().text;
  };
  auto many = [](size_t count, std::string_view field) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += field;
    return out;
  };
  EXPECT_EQ(text(many(kMaxFields, "\x10\x01")), "");
  const std::string refusal = "GenerateRequest has at most 131072 fields: append_tokens can be packed";
  EXPECT_EQ(text(many(kMaxFields + 1, "\x10\x01")), refusal);
  std::string image;
  marshal::put_bytes(image, 14, many(kMaxFields + 1, std::string_view("\x0a\x00", 2)));
  EXPECT_EQ(text(image), refusal) << "of an image";
}

TEST(Salience, NumbersBeyondTheirTypeAreNotCut) {
  Bench t;
  auto id = t.open();
  std::string message = "\x0a\x20" + id;
  auto x = t.shards[0]->wire.run("/salience.v1.Salience/Generate",
                                 support::grpc_frame(message + std::string("\x12\x06\x01\x80\x80\x80\x80\x10", 8)));
  EXPECT_EQ(support::grpc_message(*x), "append_tokens[1] must be <= 4294967295, not 4294967296");
  auto y = t.shards[0]->wire.run(
      "/salience.v1.Salience/Generate",
      support::grpc_frame(message + std::string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)));
  EXPECT_EQ(support::grpc_message(*y), "offset must be <= 4294967295, not 18446744073709551615");
}

TEST(Salience, UnknownForeignAndMalformedIdsReadTheSame) {
  Bench t({}, 1, {"alpha", "beta"});
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
  EXPECT_FALSE(msg::is_anonymous(t.call().cache_scope));
}

TEST(Salience, WithoutSecretsASessionIsItsAddresss) {
  const wire::PeerInfo here{"192.0.2.1:5000"}, again{"192.0.2.1:6000"}, there{"192.0.2.2:5000"};
  for (auto anonymous : {msg::Anonymous::kPerAddress, msg::Anonymous::kShared}) {
    Options options;
    options.anonymous = anonymous;
    Bench t(options, 2);
    auto from = [&](const wire::PeerInfo& peer) {
      for (auto& shard : t.shards) shard->wire.peer = &peer;
    };
    from(here);
    auto id = t.ask<pb::OpenSessionResponse>("OpenSession", pb::OpenSessionRequest()).response.session_id();
    pb::DumpSessionRequest dump;
    dump.set_session_id(id);
    bool shared = anonymous == msg::Anonymous::kShared;
    for (size_t shard : {0, 1}) {
      from(again);
      EXPECT_EQ(t.ask<pb::DumpSessionResponse>("DumpSession", dump, shard).status, 0);
      from(there);
      auto theirs = t.ask<pb::DumpSessionResponse>("DumpSession", dump, shard);
      EXPECT_EQ(theirs.status, shared ? 0 : number(Code::kNotFound));
      EXPECT_EQ(theirs.text, shared ? "" : "there is no such session");
    }
    auto x = t.generate(Bench::request(id, 0, {1}, 1));
    EXPECT_EQ(support::grpc_message(*x), shared ? "" : "there is no such session");
  }
}

TEST(Salience, ASecretIsWantedWhereThereIsOne) {
  Bench t({}, 1, {"alpha"});
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

}  // namespace
}  // namespace weir::salience
