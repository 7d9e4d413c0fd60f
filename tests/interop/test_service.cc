#include "interop/test_service.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "messages.pb.h"

namespace weir::interop {
namespace {

namespace pb = grpc::testing;
using base::Status;
using wire::MessageCompress;
using wire::Rpc;

constexpr int32_t kMaxPayload = 16 << 20;  // of one answer
constexpr size_t kMaxDue = 64;             // answers that wait; past that the peer is not read

template <class Message>
base::Result<Message> parse(const base::Bytes& bytes) {
  Message message;
  if (message.ParseFromArray(bytes.data(), int(bytes.size()))) return message;
  return base::invalid("not a " + Message::descriptor()->full_name());
}

Status check_size(int32_t size) {
  if (size >= 0 && size <= kMaxPayload) return {};
  return base::invalid("a payload of " + std::to_string(size) + " bytes: 0 to 16 MiB are served");
}

// Null: the client does not say.
const pb::BoolValue* if_set(bool set, const pb::BoolValue& value) { return set ? &value : nullptr; }

template <class Request>
Status check_compressed(const Rpc& rpc, const Request& request) {
  const auto* expected = if_set(request.has_expect_compressed(), request.expect_compressed());
  if (!expected || rpc.came_compressed() == expected->value()) return {};
  return base::invalid(expected->value() ? "expected a compressed message" : "expected one that is not compressed");
}

Status status_of(const pb::EchoStatus& wanted) {
  auto code = wanted.code() >= 0 && wanted.code() <= 16 ? base::Code(wanted.code()) : base::Code::kUnknown;
  return base::failure(code, wanted.message());
}

// Begins each call. The head names an encoding, for the messages that the client will want compressed; metadata by
// these names is sent back.
void begin(Rpc& rpc) {
  rpc.compress(MessageCompress::kAccepted);
  constexpr std::string_view kInitial = "x-grpc-test-echo-initial", kTrailing = "x-grpc-test-echo-trailing-bin";
  if (auto value = rpc.metadata().find(kInitial); value.data()) rpc.initial(kInitial, value);
  if (auto value = wire::metadata_bin(rpc.metadata(), kTrailing)) rpc.trailing(kTrailing, *value);
}

template <class Message>
void send(Rpc& rpc, const Message& message, const pb::BoolValue* compressed) {
  rpc.compress(compressed && compressed->value() ? MessageCompress::kAccepted : MessageCompress::kNever);
  rpc.send(base::Bytes::adopt(message.SerializeAsString()));
}

class EmptyCall final : public wire::RpcMethod {
 public:
  void call(Rpc& rpc, base::Bytes) override {
    begin(rpc);
    rpc.send(base::Bytes());
    rpc.finish({});
  }
};

class UnaryCall final : public wire::RpcMethod {
 public:
  enum class Cache : uint8_t { kNo, kAllowed };
  explicit UnaryCall(Cache cache) : cache_(cache) {}

  void call(Rpc& rpc, base::Bytes bytes) override {
    begin(rpc);
    if (cache_ == Cache::kAllowed) rpc.initial("cache-control", "max-age=60, public");
    auto request = parse<pb::SimpleRequest>(bytes);
    rpc.finish(request ? answer(rpc, *request) : request.error());
  }

 private:
  static Status answer(Rpc& rpc, const pb::SimpleRequest& request) {
    Status status = check_compressed(rpc, request);
    if (status.ok()) status = check_size(request.response_size());
    if (status.ok()) status = status_of(request.response_status());
    if (!status.ok()) return status;
    pb::SimpleResponse response;
    response.mutable_payload()->set_body(std::string(size_t(request.response_size()), '\0'));
    send(rpc, response, if_set(request.has_response_compressed(), request.response_compressed()));
    return {};
  }

  const Cache cache_;
};

// The answers that a client has asked for, in order: each after its pause, and none while the peer does not read.
class Answers {
 public:
  Answers(Rpc& rpc, base::Env& env) : rpc_(rpc), env_(env) {}
  ~Answers() { env_.cancel(timer_); }

  void add(const pb::StreamingOutputCallRequest& request) {
    for (const auto& parameters : request.response_parameters()) due_.push_back(parameters);
    if (request.response_status().code() != 0) end(status_of(request.response_status()));
  }
  // The status that follows the last answer; the first one counts.
  void end(Status status) {
    if (!end_) end_ = std::move(status);
  }
  bool full() const { return due_.size() >= kMaxDue; }

  void proceed() {
    if (over_ || timer_ != base::TimerId::kNone) return;
    for (; !due_.empty(); due_.pop_front(), paused_ = false) {
      if (rpc_.backlog() > wire::Exchange::kHighWater) return;
      if (due_.front().interval_us() > 0 && !std::exchange(paused_, true)) return pause(due_.front().interval_us());
      if (Status status = answer(due_.front()); !status.ok()) return finish(status);
    }
    if (end_) finish(*end_);
  }

 private:
  Status answer(const pb::ResponseParameters& wanted) {
    if (Status status = check_size(wanted.size()); !status.ok()) return status;
    pb::StreamingOutputCallResponse response;
    response.mutable_payload()->set_body(std::string(size_t(wanted.size()), '\0'));
    send(rpc_, response, if_set(wanted.has_compressed(), wanted.compressed()));
    return {};
  }
  void pause(int32_t interval_us) {
    timer_ = env_.at(env_.now() + std::chrono::microseconds(interval_us), [this] {
      timer_ = base::TimerId::kNone;
      proceed();
    });
  }
  void finish(const Status& status) {
    over_ = true;
    rpc_.finish(status);
  }

  Rpc& rpc_;
  base::Env& env_;
  std::deque<pb::ResponseParameters> due_;
  std::optional<Status> end_;
  base::TimerId timer_ = base::TimerId::kNone;
  bool paused_ = false, over_ = false;
};

// Answers while requests come in (full duplex), or once all have come (half duplex).
class OutputReader final : public wire::RpcListener {
 public:
  enum class Begin : uint8_t { kAtOnce, kAtHalfClose };
  OutputReader(Rpc& rpc, base::Env& env, Begin begin) : answers_(rpc, env), begin_(begin) {}

  void on_message(Rpc& rpc, base::Bytes bytes) override {
    auto request = parse<pb::StreamingOutputCallRequest>(bytes);
    if (!request) return answers_.end(request.error()), answers_.proceed();
    answers_.add(*request);
    if (begin_ == Begin::kAtOnce) return answers_.proceed();
    if (answers_.full()) rpc.finish(base::failure(base::Code::kResourceExhausted, "too many requests to keep"));
  }
  bool full() const override { return begin_ == Begin::kAtOnce && answers_.full(); }
  void on_half_close(Rpc&) override {
    answers_.end({});
    answers_.proceed();
  }
  void on_drain(Rpc&) override { answers_.proceed(); }
  void on_close(Rpc&) override {}

 private:
  Answers answers_;
  const Begin begin_;
};

// StreamingOutputCall, FullDuplexCall and HalfDuplexCall.
class OutputCall final : public wire::RpcMethod {
 public:
  OutputCall(base::Env& env, OutputReader::Begin begin) : env_(env), begin_(begin) {}

  void call(Rpc& rpc, base::Bytes bytes) override {
    open(rpc);
    auto& reader = *rpc.listener();
    reader.on_message(rpc, std::move(bytes));
    reader.on_half_close(rpc);
  }
  void open(Rpc& rpc) override {
    begin(rpc);
    rpc.attach(std::make_unique<OutputReader>(rpc, env_, begin_));
  }

 private:
  base::Env& env_;
  const OutputReader::Begin begin_;
};

class InputReader final : public wire::RpcListener {
 public:
  void on_message(Rpc& rpc, base::Bytes bytes) override {
    auto request = parse<pb::StreamingInputCallRequest>(bytes);
    if (!request) return rpc.finish(request.error());
    Status status = check_compressed(rpc, *request);
    if (!status.ok()) return rpc.finish(status);
    total_ += request->payload().body().size();
  }
  void on_half_close(Rpc& rpc) override {
    pb::StreamingInputCallResponse response;
    response.set_aggregated_payload_size(int32_t(total_));
    rpc.send(base::Bytes::adopt(response.SerializeAsString()));
    rpc.finish({});
  }
  void on_close(Rpc&) override {}

 private:
  uint64_t total_ = 0;
};

class InputCall final : public wire::RpcMethod {
 public:
  void open(Rpc& rpc) override {
    begin(rpc);
    rpc.attach(std::make_unique<InputReader>());
  }
};

}  // namespace

struct TestService::Parts {
  explicit Parts(base::Env& env)
      : streaming_output(env, OutputReader::Begin::kAtOnce),
        full_duplex(env, OutputReader::Begin::kAtOnce),
        half_duplex(env, OutputReader::Begin::kAtHalfClose) {}

  EmptyCall empty;
  UnaryCall unary{UnaryCall::Cache::kNo}, cacheable{UnaryCall::Cache::kAllowed};
  OutputCall streaming_output, full_duplex, half_duplex;
  InputCall streaming_input;
};

TestService::TestService(wire::RpcServer& rpcs, base::Env& env) : parts_(std::make_unique<Parts>(env)) {
  auto add = [&](const char* method, wire::RpcKind kind, wire::RpcMethod& target, const char* in, const char* out) {
    const std::string package = "grpc.testing.";
    rpcs.add({std::string(kService), method, kind, &target, package + in, package + out, "interop",
              wire::Permission::kInfer});
  };
  using wire::RpcKind;
  const char *output = "StreamingOutputCallRequest", *outputs = "StreamingOutputCallResponse";
  add("EmptyCall", RpcKind::kUnary, parts_->empty, "Empty", "Empty");
  add("UnaryCall", RpcKind::kUnary, parts_->unary, "SimpleRequest", "SimpleResponse");
  add("CacheableUnaryCall", RpcKind::kUnary, parts_->cacheable, "SimpleRequest", "SimpleResponse");
  add("StreamingOutputCall", RpcKind::kServerStream, parts_->streaming_output, output, outputs);
  add("FullDuplexCall", RpcKind::kBidi, parts_->full_duplex, output, outputs);
  add("HalfDuplexCall", RpcKind::kBidi, parts_->half_duplex, output, outputs);
  add("StreamingInputCall", RpcKind::kClientStream, parts_->streaming_input, "StreamingInputCallRequest",
      "StreamingInputCallResponse");
}

TestService::~TestService() = default;

}  // namespace weir::interop
