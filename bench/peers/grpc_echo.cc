// The peer to beat for unary gRPC: grpc++ serving ModelInfer as identity, with its callback API or with one completion
// queue on one thread. Inputs come back as outputs of the same names: those that are asked for, or all. The callback
// server also streams: ModelStreamInfer answers a request with as many one-word responses as its max_tokens says, the
// next as soon as the last is written, which is the least that such a server can do.
//
// usage: grpc_echo callback|async PORT
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <string>

#include "inference.grpc.pb.h"

namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

void echo(const ModelInferRequest& request, ModelInferResponse& response) {
  response.set_model_name(request.model_name());
  response.set_id(request.id());
  auto asked = [&](const std::string& name) {
    for (const auto& output : request.outputs())
      if (output.name() == name) return true;
    return request.outputs().empty();
  };
  for (int i = 0; i < request.inputs_size(); ++i) {
    const auto& input = request.inputs(i);
    if (!asked(input.name())) continue;
    if (i < request.raw_input_contents_size()) response.add_raw_output_contents(request.raw_input_contents(i));
    auto& output = *response.add_outputs();
    output.set_name(input.name());
    output.set_datatype(input.datatype());
    *output.mutable_shape() = input.shape();
  }
}

// The words of one stream.
class TokenStream final : public grpc::ServerBidiReactor<ModelInferRequest, ModelStreamInferResponse> {
 public:
  TokenStream() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    auto found = request_.parameters().find("max_tokens");
    left_ = found == request_.parameters().end() ? 20 : found->second.int64_param();
    next();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, ""));
    next();
  }
  void OnDone() override { delete this; }

 private:
  void next() {
    if (left_-- == 0) return StartRead(&request_);
    response_.Clear();
    auto& infer = *response_.mutable_infer_response();
    infer.set_model_name(request_.model_name());
    infer.set_model_version("1");
    auto& output = *infer.add_outputs();
    output.set_name("text_output");
    output.set_datatype("BYTES");
    output.add_shape(1);
    infer.add_raw_output_contents(std::string("\1\0\0\0a", 5));
    StartWrite(&response_);
  }

  ModelInferRequest request_;
  ModelStreamInferResponse response_;
  int64_t left_ = 0;
};

class CallbackEcho final : public GRPCInferenceService::CallbackService {
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context, const ModelInferRequest* request,
                                       ModelInferResponse* response) override {
    echo(*request, *response);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<ModelInferRequest, ModelStreamInferResponse>* ModelStreamInfer(
      grpc::CallbackServerContext*) override {
    return new TokenStream;
  }
};

// One ModelInfer from its request to its end; two turns through the queue.
class AsyncCall {
 public:
  AsyncCall(GRPCInferenceService::AsyncService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), writer_(&context_) {
    service_.RequestModelInfer(&context_, &request_, &writer_, &queue_, &queue_, this);
  }
  void proceed(bool ok) {
    if (done_ || !ok) {
      delete this;
      return;
    }
    new AsyncCall(service_, queue_);
    echo(request_, response_);
    done_ = true;
    writer_.Finish(response_, grpc::Status::OK, this);
  }

 private:
  GRPCInferenceService::AsyncService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  ModelInferRequest request_;
  ModelInferResponse response_;
  grpc::ServerAsyncResponseWriter<ModelInferResponse> writer_;
  bool done_ = false;
};

void configure(grpc::ServerBuilder& builder, const std::string& address) {
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
}

void serve_callback(const std::string& address) {
  CallbackEcho service;
  grpc::ServerBuilder builder;
  configure(builder, address);
  builder.RegisterService(&service);
  builder.BuildAndStart()->Wait();
}

void serve_async(const std::string& address) {
  constexpr int kPosted = 256;  // calls waiting for a request; a single one would starve
  GRPCInferenceService::AsyncService service;
  grpc::ServerBuilder builder;
  configure(builder, address);
  builder.RegisterService(&service);
  auto queue = builder.AddCompletionQueue();
  auto server = builder.BuildAndStart();
  for (int i = 0; i < kPosted; ++i) new AsyncCall(service, *queue);
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) static_cast<AsyncCall*>(tag)->proceed(ok);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: grpc_echo callback|async PORT\n");
    return 2;
  }
  std::string address = std::string("127.0.0.1:") + argv[2];
  if (std::string(argv[1]) == "callback")
    serve_callback(address);
  else
    serve_async(address);
}
