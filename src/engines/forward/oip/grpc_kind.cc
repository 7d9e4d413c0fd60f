#include "engines/forward/oip/grpc_kind.h"

#include <algorithm>
#include <utility>

#include "base/recycled.h"
#include "engines/forward/http_attempt.h"
#include "engines/forward/oip/grpc_call.h"
#include "engines/forward/oip/message.h"
#include "engines/forward/oip/probe.h"
#include "engines/forward/oip/tensor_questions.h"
#include "engines/forward/passed_on.h"
#include "sched/fit.h"
#include "sched/local_first.h"

namespace weir::forward {
namespace {

using base::Bytes;
using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr std::string_view kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr std::string_view kStreamInfer = "/inference.GRPCInferenceService/ModelStreamInfer";
constexpr std::string_view kModelReady = "/inference.GRPCInferenceService/ModelReady";
constexpr std::string_view kMetadata = "/inference.GRPCInferenceService/ModelMetadata";
constexpr std::string_view kConfig = "/inference.GRPCInferenceService/ModelConfig";

class GrpcAttempt final : public AttemptOver<GrpcCall>, public base::Recycled<GrpcAttempt> {
 public:
  GrpcAttempt(const Asked& asked, Receiver& receiver)
      : AttemptOver(asked.slabs, asked.options.max_answer), asked_(asked), receiver_(receiver) {}

  Started start(OriginConn& conn) override;

 private:
  bool streams() const { return asked_.spec.decoupled; }
  Next on_message(Bytes message) override;
  void on_over(Status status, From from) override;
  bool holds() const override { return receiver_.holds(); }

  const Asked asked_;
  Receiver& receiver_;
  std::optional<msg::Outputs> answer_;  // of a model that answers once; told when the status has come
};

Attempt::Started GrpcAttempt::start(OriginConn& conn) {
  const msg::Call& call = asked_.call;
  wire::Fields& fields = GrpcCall::fields();
  add_deadline(call, asked_.now, fields);
  pass_on(asked_.call, fields);
  if (streams()) fields.add("triton_grpc_error", "true");
  // Another weir, which may have the model here beside its own, too.
  const bool relayed = asked_.options.beside_local && asked_.options.kind == KindName::kWeir;
  auto body =
      write_request(call, asked_.options.model, asked_.options.version, streams() ? Ending::kTold : Ending::kAsItIs,
                    relayed ? sched::kRelayed : std::string_view());
  return {GrpcCall::start(conn, streams() ? kStreamInfer : kInfer, std::move(body))};
}

HttpCall::Next GrpcAttempt::on_message(Bytes message) {
  receiver_.on_progress();
  auto outputs = streams() ? read_streamed(message, asked_.slabs) : read_answer(message, asked_.slabs);
  Status status =
      outputs ? check_answer(asked_.spec, outputs->tensors, streams() ? 0 : asked_.call.rows) : outputs.error();
  if (status.ok() && answer_) status = failure(Code::kInternal, "it answered twice");
  if (!status.ok()) return give_up(std::move(status));
  if (!streams()) {
    answer_ = std::move(*outputs);
    return Next::kGoOn;
  }
  if (outputs->tensors.empty()) return Next::kGoOn;  // the end is told by the call's status
  outputs->final = false;
  status = receiver_.on_part({std::move(*outputs)});
  return status.ok() ? Next::kGoOn : give_up(std::move(status));
}

void GrpcAttempt::on_over(Status status, From from) {
  if (!status.ok()) return receiver_.on_over({std::move(status), from, {}});
  if (!streams() && !answer_)
    return receiver_.on_over({failure(Code::kInternal, "it ended the call without an answer"), from, {}});
  msg::Outputs last;
  if (answer_) last = std::move(*answer_);
  last.final = true;
  receiver_.on_over({{}, from, msg::Event{std::move(last)}});
}

class GrpcQuestions final : public TensorQuestions {
 public:
  GrpcQuestions(net::Shard& shard, OriginConn& conn, const Options& options)
      : TensorQuestions(conn, options), probe_(shard, conn) {}

  void ask_ready(base::Duration timeout, OnReady then) override;

 private:
  void ask_metadata() override;
  void ask_config() override;
  Bytes name() const { return write_name(options_.model, options_.version); }

  Probe probe_;
};

void GrpcQuestions::ask_ready(base::Duration timeout, OnReady then) {
  probe_.ask(kModelReady, name(), timeout, [this, then = std::move(then)](Result<Bytes> answer) {
    if (!answer) return then(answer.error());
    auto ready = read_ready(answer->view());
    if (!ready) return then(named(ready.error()));
    then(*ready);
  });
}

void GrpcQuestions::ask_metadata() {
  probe_.ask(kMetadata, name(), timeout_, [this](Result<Bytes> answer) {
    heard_metadata(answer ? named(read_metadata(answer->view(), spec_)) : answer.error());
  });
}

// A server without configurations (KServe's, OVMS) says all in its metadata: shapes are whole then.
void GrpcQuestions::ask_config() {
  probe_.ask(kConfig, name(), timeout_, [this](Result<Bytes> answer) {
    if (answer) return heard_config(named(read_config(answer->view(), spec_)));
    heard_config(answer.error().code == Code::kUnimplemented ? Status() : answer.error());
  });
}

class OipGrpc final : public Kind {
 public:
  net::ClientConn::Http http() const override { return net::ClientConn::Http::k2; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return std::make_unique<GrpcAttempt>(asked, receiver);
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return std::make_unique<GrpcQuestions>(shard, conn, options);
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override { return sched::rows_fit(call, spec); }
};

}  // namespace

std::shared_ptr<const Kind> make_oip_grpc() { return std::make_shared<OipGrpc>(); }

}  // namespace weir::forward
