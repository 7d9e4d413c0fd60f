// ModelStreamInfer.
#include <gtest/gtest.h>

#include "requests.h"

namespace weir::oip {
namespace {

using base::Code;

class OipStream : public testing::Test {
 protected:
  void open(const OipBench::Headers& headers = {}) { x_ = bench_.open_grpc("ModelStreamInfer", headers); }
  void send(const inference::ModelInferRequest& r) {
    bench_.wire.data(*x_, support::grpc_frame(r.SerializeAsString()));
    bench_.turn();
  }
  // "id:value", "id:error text", with '!' behind those that say that they are final.
  std::string heard() {
    std::string out;
    for (const auto& frame : support::grpc_frames(x_->sent)) {
      inference::ModelStreamInferResponse r;
      EXPECT_TRUE(r.ParseFromString(frame.payload));
      if (!out.empty()) out += " ";
      out += r.infer_response().id() + ":";
      out += r.error_message();
      if (r.infer_response().raw_output_contents_size())
        out += std::to_string(int(r.infer_response().raw_output_contents(0)[0]));
      auto final = r.infer_response().parameters().find("triton_final_response");
      const bool told = final != r.infer_response().parameters().end();
      EXPECT_TRUE(told || !r.error_message().empty());
      if (told && final->second.bool_param()) out += "!";
    }
    return out;
  }
  void answer(std::string model, size_t i, int value, bool final = true) {
    auto& inbox = bench_.inbox(model);
    bool batched = model == "add";
    auto event = outputs(
        (batched ? "sum INT32 [1,2] [" : "o INT32 [1] [") + std::to_string(value) + (batched ? ",0]" : "]"), final);
    final ? inbox.finish(inbox.held.at(i), std::move(event)) : inbox.post(inbox.held.at(i), std::move(event));
    bench_.turn();
  }

  OipBench bench_;
  support::RpcBench::Opened x_;
};

TEST_F(OipStream, OrdinaryAnswersComeInTheOrderOfTheirRequests) {
  open();
  for (auto id : {"a", "b", "c"}) send(add_request(1, 2, id));
  answer("add", 2, 3);
  EXPECT_EQ(heard(), "");
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "a:1!");
  answer("add", 0, 2);
  EXPECT_EQ(heard(), "a:1! b:2! c:3!");
}

TEST_F(OipStream, DecoupledAnswersComeAsTheyAreMade) {
  open();
  send(add_request(1, 2, "slow"));
  send(flow_request("f"));
  answer("flow", 0, 7, false);
  answer("flow", 0, 8, false);
  EXPECT_EQ(heard(), "f:7 f:8");
  auto& inbox = bench_.inbox("flow");
  inbox.finish(inbox.held.at(0), {msg::Done{}});
  bench_.turn();
  EXPECT_EQ(heard(), "f:7 f:8");  // the empty end is not told unless asked for
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "f:7 f:8 slow:1!");
}

TEST_F(OipStream, TheEmptyEndIsToldToThoseWhoAsk) {
  open();
  auto r = flow_request("f");
  (*r.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  send(r);
  send(r);
  answer("flow", 0, 7, false);
  auto& inbox = bench_.inbox("flow");
  inbox.finish(inbox.held.at(0), {msg::Done{}});
  inbox.finish(inbox.held.at(0), {msg::Outputs{{}, {}, true}});
  bench_.turn();
  EXPECT_EQ(heard(), "f:7 f:! f:!");
}

TEST_F(OipStream, AFailureIsAMessageAndTheStreamGoesOn) {
  open();
  send(add_request(1, 2, "a"));
  auto bad = add_request(1, 2, "b");
  bad.mutable_inputs(0)->set_datatype("FP32");
  send(bad);
  EXPECT_EQ(heard(), "");
  answer("add", 0, 1);
  EXPECT_EQ(heard(), "a:1! b:input 'a': FP32 data belongs in fp32_contents, but the contents have int_contents");
  send(add_request(1, 2, "c"));
  auto& inbox = bench_.inbox("add");
  inbox.finish(inbox.held.at(0), {msg::Failed{base::failure(Code::kInternal, "broke")}});
  bench_.turn();
  EXPECT_TRUE(heard().ends_with("c:broke!")) << heard();
  EXPECT_FALSE(x_->ended);
  bench_.wire.end(*x_);
  EXPECT_EQ(support::grpc_status(*x_), 0);
}

TEST_F(OipStream, AnErrorMayBeOneOfADecoupledModelsAnswers) {
  open();
  send(flow_request("f"));
  auto& inbox = bench_.inbox("flow");
  msg::Call* call = inbox.held.at(0);
  EXPECT_TRUE(call->takes_errors);
  answer("flow", 0, 7, false);
  inbox.post(call, {msg::Failed{base::failure(Code::kNotFound, "not that one"), false}});
  bench_.turn();
  inference::ModelStreamInferResponse error;
  ASSERT_TRUE(error.ParseFromString(support::grpc_frames(x_->sent).back().payload));
  ASSERT_TRUE(error.infer_response().parameters().contains("triton_final_response"));
  EXPECT_FALSE(error.infer_response().parameters().at("triton_final_response").bool_param());
  answer("flow", 0, 8, false);
  inbox.finish(call, {msg::Failed{base::failure(Code::kInternal, "broke")}});
  bench_.turn();
  EXPECT_EQ(heard(), "f:7 f:not that one f:8 f:broke!");
}

TEST_F(OipStream, AStreamThatEndsWithTheFirstFailureTakesNoErrorsAmongAnswers) {
  open({{"triton_grpc_error", "true"}});
  send(flow_request("f"));
  EXPECT_FALSE(bench_.inbox("flow").held.at(0)->takes_errors);
}

TEST_F(OipStream, TheFirstFailureEndsTheStreamWhenAskedTo) {
  open({{"triton_grpc_error", "true"}});
  send(add_request(1, 2, "a"));
  auto unknown = add_request(1, 2, "b");
  unknown.set_model_name("nothing");
  send(unknown);
  EXPECT_EQ(support::grpc_status(*x_), int(Code::kNotFound));
  EXPECT_TRUE(bench_.inbox("add").held.at(0)->cancelled);
}

// They share one record, which names the model of the request that came last.
TEST_F(OipStream, EachRequestIsTracedAsOneOfItsOwnModel) {
  for (const char* model : {"add", "flow"})
    ASSERT_TRUE(
        bench_.traces.change(model, {{"trace_level", {"TIMESTAMPS"}}, {"trace_rate", {"1"}}, {"trace_count", {"1"}}})
            .ok());
  open();
  send(add_request(1, 2, "slow"));
  send(flow_request("f"));
  testing::internal::CaptureStderr();
  answer("add", 0, 3);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(bench_.traces.settings("add").at("trace_count")[0], "0");
  EXPECT_EQ(bench_.traces.settings("flow").at("trace_count")[0], "0");
}

TEST_F(OipStream, TheHalfCloseWaitsForAll) {
  open();
  send(add_request(1, 2, "a"));
  send(flow_request("f"));
  bench_.wire.end(*x_);
  answer("add", 0, 1);
  EXPECT_FALSE(x_->ended);
  answer("flow", 0, 2);
  EXPECT_TRUE(x_->ended);
  EXPECT_EQ(heard(), "a:1! f:2!");
  EXPECT_EQ(support::grpc_status(*x_), 0);
  EXPECT_EQ(bench_.bus.in_flight(), 0u);
}

TEST_F(OipStream, CreditComesBackOnlyWhenThePeerDrains) {
  open();
  send(flow_request("f"));
  msg::Call* call = bench_.inbox("flow").held.at(0);
  EXPECT_EQ(call->credit.load(), 64);
  for (int i = 0; i < 16; ++i) answer("flow", 0, 1, false);
  EXPECT_EQ(call->credit.load(), 80);
  x_->fake_backlog = wire::Exchange::kLowWater;
  for (int i = 0; i < 20; ++i) answer("flow", 0, 2, false);
  EXPECT_EQ(call->credit.load(), 80);
  x_->fake_backlog = 0;
  x_->listener()->on_drain(*x_);
  EXPECT_EQ(call->credit.load(), 100);
}

TEST_F(OipStream, AClientThatLeavesCancelsAllItsCalls) {
  open();
  send(add_request(1, 2, "a"));
  send(flow_request("f"));
  x_.reset();
  EXPECT_TRUE(bench_.inbox("add").held.at(0)->cancelled);
  EXPECT_TRUE(bench_.inbox("flow").held.at(0)->cancelled);
}

TEST_F(OipStream, AClientThatOutrunsTheModelIsHeldBack) {
  constexpr size_t kMost = 256, kSent = 300;
  open();
  for (size_t i = 0; i < kSent; ++i) send(add_request(1, 2, std::to_string(i)));
  auto& inbox = bench_.inbox("add");
  EXPECT_EQ(inbox.held.size(), kMost);
  for (size_t i = 0; i < 10; ++i) answer("add", 0, 3);
  bench_.wire.advance(*x_, std::chrono::milliseconds(100));
  EXPECT_EQ(inbox.held.size(), kMost);
  while (!inbox.held.empty()) {
    answer("add", 0, 3);
    bench_.wire.advance(*x_, std::chrono::milliseconds(100));
  }
  EXPECT_EQ(support::grpc_frames(x_->sent).size(), kSent);
  EXPECT_FALSE(x_->ended);
}

TEST_F(OipStream, AStreamThatWasHeldBackGoesOnInTheTurnThatMakesRoom) {
  open();
  for (size_t i = 0; i < 300; ++i) send(add_request(1, 2, std::to_string(i)));
  auto& inbox = bench_.inbox("add");
  for (size_t i = 0; i < 300; ++i) {
    ASSERT_FALSE(inbox.held.empty()) << i;
    answer("add", 0, 3);
    bench_.wire.advance(*x_, base::Duration(0));
  }
  EXPECT_EQ(support::grpc_frames(x_->sent).size(), 300u);
}

// The bench's limit is 600.
TEST_F(OipStream, TheStreamsOfOneConnectionShareALimitAndNoneStarves) {
  std::vector<support::RpcBench::Opened> streams;
  for (int s = 0; s < 4; ++s) {
    open();
    streams.push_back(std::move(x_));
  }
  auto send_to = [&](size_t s) {
    bench_.wire.data(*streams[s], support::grpc_frame(add_request(1, 2, std::to_string(s)).SerializeAsString()));
    bench_.turn();
  };
  for (size_t s = 0; s < 3; ++s)
    for (int i = 0; i < 300; ++i) send_to(s);
  auto& inbox = bench_.inbox("add");
  EXPECT_EQ(inbox.held.size(), 600u);
  send_to(3);
  EXPECT_EQ(inbox.held.size(), 601u) << "a stream that has nothing under way";
  send_to(3);
  EXPECT_EQ(inbox.held.size(), 601u);
  streams[0].reset();  // its client leaves
  for (auto& s : streams)
    if (s) bench_.wire.advance(*s, std::chrono::milliseconds(100));
  size_t left = 0;
  while (!inbox.held.empty()) {
    if (!inbox.held.front()->cancelled) ++left;
    answer("add", 0, 3);
    for (auto& s : streams)
      if (s) bench_.wire.advance(*s, std::chrono::milliseconds(100));
  }
  EXPECT_EQ(left, 602u);
}

}  // namespace
}  // namespace weir::oip
