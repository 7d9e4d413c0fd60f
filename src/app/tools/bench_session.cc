#include "app/tools/bench_session.h"

#include "marshal/pb_wire.h"

namespace weir::app {
namespace {

using marshal::PbType;
using msg::Tensor;

constexpr std::string_view kNoId = "00000000000000000000000000000000";  // as long as an id of Salience

void put_number(std::string& out, uint32_t field, uint64_t value) {
  marshal::put_tag(out, field, PbType::kVarint);
  marshal::put_varint(out, value);
}

// evergreen.v2.NodeFragment (proto/evergreen.proto): the whole of a leaf.
void put_leaf(std::string& message, std::string_view id, std::string_view mimetype, std::string_view data) {
  std::string metadata, chunk, fragment;
  marshal::put_text(metadata, 1, mimetype);
  marshal::put_bytes(chunk, 1, metadata);
  marshal::put_bytes(chunk, 10, data);
  marshal::put_text(fragment, 1, id);
  marshal::put_bytes(fragment, 5, chunk);
  marshal::put_bytes(message, 1, fragment);
}

void put_named(std::string& action, uint32_t field, std::string_view name, std::string_view id) {
  std::string named;
  marshal::put_text(named, 1, name);
  marshal::put_text(named, 2, id);
  marshal::put_bytes(action, field, named);
}

BenchRequest evergreen_session(const std::string& model, std::string message, std::string action) {
  std::string target;
  marshal::put_text(target, 1, model);
  marshal::put_bytes(action, 6, target);
  marshal::put_bytes(message, 2, action);
  return {{grpc_request("/evergreen.v2.EvergreenService/StartSession", message)}};
}

std::string tensor_type(const Tensor& t) {
  std::string dims;
  for (int64_t dim : t.shape.dims()) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
  return "application/x-weir-tensor; dtype=" + std::string(msg::name(t.dtype)) + "; shape=" + dims;
}

}  // namespace

BenchRequest salience_session(const std::string& model, std::span<const uint32_t> tokens, uint32_t max_tokens) {
  std::string open, ids, generate, close;
  marshal::put_text(open, 1, model);
  for (uint32_t id : tokens) marshal::put_varint(ids, id);
  marshal::put_text(generate, 1, kNoId);
  marshal::put_bytes(generate, 2, ids);
  put_number(generate, 5, max_tokens);
  marshal::put_text(close, 1, kNoId);
  return {{grpc_request("/salience.v1.Salience/OpenSession", open),
           grpc_request("/salience.v1.Salience/Generate", generate),
           grpc_request("/salience.v1.Salience/CloseSession", close)}};
}

// The id is the first field of both messages: the first zeros are its own.
wire::ClientRequest in_session(const wire::ClientRequest& call, std::string_view id) {
  wire::ClientRequest out = call;
  std::string body(call.body.view());
  if (const size_t at = body.find(kNoId); at != body.npos && id.size() == kNoId.size()) body.replace(at, id.size(), id);
  out.body = base::Bytes::adopt(std::move(body));
  return out;
}

BenchRequest evergreen_generate(const std::string& model, const std::string& prompt, uint32_t max_tokens) {
  std::string message, config, any, action;
  put_leaf(message, "prompt", "text/plain", prompt);
  put_number(config, 1, max_tokens);
  put_number(config, 11, 1);  // ignore_eos
  marshal::put_text(any, 1, "type.googleapis.com/weir.evergreen.v1.GenerateConfig");
  marshal::put_bytes(any, 2, config);
  marshal::put_text(action, 2, "GENERATE");
  put_named(action, 3, "prompt", "prompt");
  put_named(action, 4, "response", kEvergreenAnswer);
  marshal::put_bytes(action, 5, any);
  return evergreen_session(model, std::move(message), std::move(action));
}

BenchRequest evergreen_infer(const std::string& model, std::span<const Tensor> tensors) {
  std::string message, action;
  marshal::put_text(action, 2, "INFER");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string id = "input" + std::to_string(i);
    put_leaf(message, id, tensor_type(tensors[i]), tensors[i].data.view());
    put_named(action, 3, tensors[i].name, id);
  }
  put_named(action, 4, "outputs", "outputs");
  return evergreen_session(model, std::move(message), std::move(action));
}

}  // namespace weir::app
