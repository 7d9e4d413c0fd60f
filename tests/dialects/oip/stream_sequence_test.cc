// Requests of sequences that come by ModelStreamInfer without waiting for each other's answers: none runs on a state
// that lacks an earlier one, and none overtakes another.
#include <gtest/gtest.h>

#include "dialects/oip/long_work.h"
#include "msg/sequence.h"
#include "requests.h"
#include "support/held_workers.h"
#include "wire/identity.h"

namespace weir::oip {
namespace {

// The bench's Inbox, of a model of sequences.
class SequencedInbox final : public msg::Inbox, public msg::KeepsSequences {
 public:
  explicit SequencedInbox(std::unique_ptr<msg::Inbox> inner) : inner_(std::move(inner)) {}
  void put(msg::Call* call) override { inner_->put(call); }
  void poke() override { inner_->poke(); }
  const msg::SequenceSpec& sequences() const override { return spec_; }
  std::unique_ptr<msg::Inbox> leave() { return std::move(inner_); }

 private:
  std::unique_ptr<msg::Inbox> inner_;
  const msg::SequenceSpec spec_;
};

constexpr std::string_view kEnded = "an earlier request of the sequence was refused, which has ended it: ";

class OipStreamSequence : public testing::Test {
 protected:
  OipStreamSequence() {
    for (const char* model : {"add", "any"}) {
      auto& inbox = bench_.served(model).inbox;
      inbox = std::make_unique<SequencedInbox>(std::move(inbox));
    }
  }
  void open(const OipBench::Headers& headers = {}) { x_ = bench_.open_grpc("ModelStreamInfer", headers); }
  static inference::ModelInferRequest of(int64_t sequence, inference::ModelInferRequest r) {
    if (sequence) (*r.mutable_parameters())["sequence_id"].set_int64_param(sequence);
    return r;
  }
  static inference::ModelInferRequest start(int64_t sequence, std::string id) {
    auto r = of(sequence, add_request(1, 2, std::move(id)));
    (*r.mutable_parameters())["sequence_start"].set_bool_param(true);
    return r;
  }
  static inference::ModelInferRequest ending(inference::ModelInferRequest r) {
    (*r.mutable_parameters())["sequence_end"].set_bool_param(true);
    return r;
  }
  static inference::ModelInferRequest digits_request() {
    inference::ModelInferRequest r;
    r.set_model_name("digits");
    auto& in = *r.add_inputs();
    in.set_name("image"), in.set_datatype("FP32"), in.add_shape(1), in.add_shape(2);
    in.mutable_contents()->add_fp32_contents(1), in.mutable_contents()->add_fp32_contents(2);
    return r;
  }
  // As many requests of others as may be in flight, and their end.
  void fill() {
    while (bench_.bus.in_flight() < bus::BusLimits().max_in_flight) {
      others_.push_back(bench_.open_grpc("ModelInfer"));
      bench_.wire.data(*others_.back(), support::grpc_frame(digits_request().SerializeAsString()));
      bench_.wire.end(*others_.back());
    }
  }
  void leave() {
    auto& inbox = bench_.inbox("digits");
    while (!inbox.held.empty()) inbox.finish(inbox.held.back(), {msg::Done{}});
    bench_.turn();
    others_.clear();
  }
  void send(const inference::ModelInferRequest& r) {
    bench_.wire.data(*x_, support::grpc_frame(r.SerializeAsString()));
    bench_.turn();
  }
  void send(int64_t sequence, std::string id) { send(of(sequence, add_request(1, 2, std::move(id)))); }
  // The ids of what the model has got, and answers it.
  std::string ran(const std::string& model = "add") {
    std::string out;
    auto& inbox = bench_.inbox(model);
    while (!inbox.held.empty()) {
      out += inbox.held.front()->id;
      inbox.finish(inbox.held.front(), outputs("sum INT32 [1,2] [1,1]"));
      bench_.turn();
    }
    return out;
  }
  // The answers by request: the text of an error, or nothing.
  std::map<std::string, std::string> heard() {
    std::map<std::string, std::string> out;
    for (const auto& frame : support::grpc_frames(x_->sent)) {
      inference::ModelStreamInferResponse r;
      EXPECT_TRUE(r.ParseFromString(frame.payload));
      out[r.infer_response().id()] += r.error_message();
    }
    return out;
  }

  OipBench bench_;
  support::RpcBench::Opened x_;
  std::vector<support::RpcBench::Opened> others_;
};

TEST_F(OipStreamSequence, ARefusedRequestEndsItsSequenceUntilTheNextStart) {
  open();
  send(start(5, "a"));
  send(start(6, "A"));
  fill();
  send(5, "b");
  leave();
  for (auto id : {"c", "d"}) send(5, id);
  send(6, "B");
  send(0, "-");
  EXPECT_EQ(ran(), "aAB-");
  auto said = heard();
  EXPECT_TRUE(said["b"].starts_with("too many requests in flight")) << said["b"];
  EXPECT_EQ(said["c"], std::string(kEnded) + said["b"]);
  EXPECT_EQ(said["d"], said["c"]);
  send(start(5, "e"));
  send(5, "f");
  EXPECT_EQ(ran(), "ef");
  EXPECT_FALSE(x_->ended);
}

TEST_F(OipStreamSequence, ARefusedStartEndsTheSequenceThatItWouldHaveReplaced) {
  open();
  send(start(5, "a"));
  fill();
  send(start(5, "b"));
  leave();
  send(5, "c");
  EXPECT_EQ(ran(), "a");
  EXPECT_TRUE(heard()["c"].starts_with(kEnded)) << heard()["c"];
}

TEST_F(OipStreamSequence, TheLimitOfAKeyEndsASequenceTooAndTheErrorNamesTheRequest) {
  wire::Identity identity;
  identity.limiter = std::make_shared<base::UsageLimiter>("k", base::UsageLimits{.requests_per_second = 2});
  open();
  x_->mutable_request().identity = &identity;
  send(start(5, "a"));
  for (auto id : {"b", "c", "d"}) send(5, id);
  bench_.wire.advance(*x_, std::chrono::seconds(10));
  send(5, "e");
  EXPECT_EQ(ran(), "abc");
  EXPECT_NE(heard()["d"].find("requests_per_second"), std::string::npos) << heard()["d"];
  EXPECT_TRUE(heard()["e"].starts_with(kEnded)) << heard()["e"];
}

TEST_F(OipStreamSequence, AMistakeInARequestDoesNotEndItsSequence) {
  open();
  send(start(5, "a"));
  auto wrong = of(5, add_request(1, 2, "b"));
  wrong.mutable_inputs(0)->set_datatype("FP32");
  send(wrong);
  send(5, "c");
  EXPECT_EQ(ran(), "ac");
}

TEST_F(OipStreamSequence, AModelWithoutSequencesHasNone) {
  open();
  auto& inbox = bench_.served("add").inbox;
  inbox = static_cast<SequencedInbox&>(*inbox).leave();
  fill();
  send(5, "a");
  leave();
  send(5, "b");
  EXPECT_NE(heard()["a"], "");
  EXPECT_EQ(ran(), "b");
}

TEST_F(OipStreamSequence, OfSequencesThatLackARequestTheLastOnesAreRemembered) {
  open();
  fill();
  for (int64_t i = 1; i <= 400; ++i) send(start(i, "a"));
  send(145, "a");
  send(start(401, "a"));
  leave();
  EXPECT_FALSE(x_->ended);
  send(146, "b");
  for (auto [sequence, id] : {std::pair(145, "c"), {147, "d"}, {401, "e"}}) send(sequence, id);
  EXPECT_EQ(ran(), "b");
  auto said = heard();
  for (auto id : {"c", "d", "e"}) EXPECT_TRUE(said[id].starts_with(kEnded)) << said[id];
}

TEST_F(OipStreamSequence, ASequenceWhoseEndIsRefusedIsNotRemembered) {
  open();
  send(start(1, "a"));
  EXPECT_EQ(ran(), "a");
  fill();
  for (int64_t i = 0; i < 300; ++i) send(ending(start(1000 + i, "-")));
  send(1, "-");
  for (int64_t i = 0; i < 300; ++i) send(ending(start(2000 + i, "-")));
  leave();
  send(1, "b");
  send(ending(of(1, add_request(1, 2, "c"))));
  EXPECT_EQ(ran(), "");
  for (auto id : {"b", "c"}) EXPECT_TRUE(heard()[id].starts_with(kEnded)) << heard()[id];
  send(1, "d");
  EXPECT_EQ(ran(), "d") << "what it lacks, the model says";
  EXPECT_FALSE(x_->ended);
}

class OipLongSequence : public OipStreamSequence {
 protected:
  OipLongSequence() { bench_.bus.set_worker_pool(workers_); }
  static inference::ModelInferRequest of_bytes(int64_t sequence, std::string id, size_t bytes) {
    inference::ModelInferRequest r;
    r.set_model_name("any"), r.set_id(std::move(id));
    auto& in = *r.add_inputs();
    in.set_name("x"), in.set_datatype("INT8"), in.add_shape(int64_t(bytes));
    for (size_t i = 0; i < bytes; ++i) in.mutable_contents()->add_int_contents(1);
    return of(sequence, std::move(r));
  }
  // Lets the stream go on.
  void later() {
    bench_.wire.advance(*x_, std::chrono::milliseconds(100));
    bench_.turn();
  }
  void work() {
    workers_.work();
    bench_.turn();
    later();
  }

  support::HeldWorkers workers_;
};

TEST_F(OipLongSequence, AShortRequestDoesNotOvertakeALongOne) {
  open();
  send(of_bytes(5, "a", kLongRequest));
  send(of_bytes(5, "b", 1));
  later();
  EXPECT_EQ(ran("any"), "");
  work();
  EXPECT_EQ(ran("any"), "ab");
}

TEST_F(OipLongSequence, OneThatBelongsToNoSequenceIsOvertaken) {
  open();
  send(of_bytes(0, "a", kLongRequest));
  send(of_bytes(5, "b", 1));
  EXPECT_EQ(ran("any"), "b");
  work();
  EXPECT_EQ(ran("any"), "a");
}

TEST_F(OipLongSequence, ALongRequestThatIsRefusedEndsItsSequence) {
  open();
  send(of_bytes(5, "a", kLongRequest));
  send(of_bytes(5, "b", 1));
  workers_.refuse(base::try_again(base::Code::kResourceExhausted, "too much waits for the workers"));
  bench_.turn();
  later();
  EXPECT_EQ(ran("any"), "");
  EXPECT_EQ(heard()["a"], "too much waits for the workers");
  EXPECT_EQ(heard()["b"], std::string(kEnded) + heard()["a"]);
}

}  // namespace
}  // namespace weir::oip
