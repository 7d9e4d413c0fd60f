// libgrpc++ with generated stubs against the one port. usage: grpcpp_client ADDRESS
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "inference.grpc.pb.h"

namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

ModelInferRequest simple(const std::string& id, const std::string& model = "simple") {
  ModelInferRequest request;
  request.set_model_name(model);
  request.set_id(id);
  for (const char* name : {"INPUT0", "INPUT1"}) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype("INT32");
    input.add_shape(1);
    input.add_shape(16);
    std::string raw(64, '\0');
    for (int32_t i = 0; i < 16; ++i) std::memcpy(raw.data() + 4 * i, &i, 4);
    request.add_raw_input_contents(raw);
  }
  return request;
}

bool adds_up(const ModelInferResponse& response) {
  if (response.raw_output_contents_size() != 2) return false;
  for (int32_t i = 0; i < 16; ++i) {
    int32_t sum;
    std::memcpy(&sum, response.raw_output_contents(0).data() + 4 * i, 4);
    if (sum != 2 * i) return false;
  }
  return true;
}

std::unique_ptr<grpc::ClientContext> context() {
  auto c = std::make_unique<grpc::ClientContext>();
  c->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  return c;
}

bool unary(GRPCInferenceService::Stub& stub) {
  ModelInferResponse response;
  return stub.ModelInfer(context().get(), simple("cc"), &response).ok() && adds_up(response) && response.id() == "cc";
}

bool compressed(GRPCInferenceService::Stub& stub) {
  auto c = context();
  c->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  ModelInferResponse response;
  return stub.ModelInfer(c.get(), simple("gz"), &response).ok() && adds_up(response);
}

bool error(GRPCInferenceService::Stub& stub) {
  ModelInferResponse response;
  auto status = stub.ModelInfer(context().get(), simple("x", "simpel"), &response);
  return status.error_code() == grpc::StatusCode::NOT_FOUND &&
         status.error_message().find("simple") != std::string::npos;
}

bool stream(GRPCInferenceService::Stub& stub) {
  auto c = context();
  auto both = stub.ModelStreamInfer(c.get());
  inference::ModelStreamInferResponse answer;
  for (int i = 0; i < 20; ++i) {
    if (!both->Write(simple(std::to_string(i))) || !both->Read(&answer)) return false;
    if (answer.infer_response().id() != std::to_string(i) || !adds_up(answer.infer_response())) return false;
  }
  both->WritesDone();
  return !both->Read(&answer) && both->Finish().ok();
}

bool cancelled(GRPCInferenceService::Stub& stub) {
  auto c = context();
  auto both = stub.ModelStreamInfer(c.get());
  both->Write(simple("one"));
  inference::ModelStreamInferResponse answer;
  if (!both->Read(&answer)) return false;
  c->TryCancel();
  while (both->Read(&answer)) {
  }
  return both->Finish().error_code() == grpc::StatusCode::CANCELLED;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto stub = GRPCInferenceService::NewStub(grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  std::vector<std::pair<const char*, std::function<bool(GRPCInferenceService::Stub&)>>> cases{
      {"unary", unary}, {"compressed", compressed}, {"error", error}, {"stream", stream}, {"cancelled", cancelled}};
  int passed = 0, failed = 0;
  for (auto& [name, run] : cases) {
    bool good = run(*stub);
    ++(good ? passed : failed);
    if (!good) std::printf("FAILED %s\n", name);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
