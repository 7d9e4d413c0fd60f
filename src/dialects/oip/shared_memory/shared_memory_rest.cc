#include "dialects/oip/shared_memory/shared_memory_rest.h"

#include "base/encoding.h"
#include "dialects/oip/pb_json.h"
#include "dialects/oip/shared_memory/shared_memory_views.h"
#include "marshal/json_cursor.h"

namespace weir::oip {
namespace {

namespace pb = inference;
using base::invalid;
using base::Status;
using marshal::JsonCursor;
using wire::Exchange;
using wire::PathArgs;
using wire::respond_error;

// A list of the regions, not gRPC's map of them.
template <class Response>
void respond_regions(Exchange& exchange, const base::Result<Response>& response) {
  if (!response) return respond_error(exchange, response.error());
  std::string out = "[";
  for (const auto& [name, region] : response->regions()) {
    if (out.size() > 1) out += ',';
    write_json(out, region);
  }
  respond_json(exchange, out + "]");
}

void respond_done(Exchange& exchange, const Status& status) {
  if (!status.ok()) return respond_error(exchange, status);
  respond_json(exchange, "{}");
}

bool read_number(JsonCursor& json, uint64_t& out) {
  marshal::JsonNumber number;
  if (!json.number(number)) return false;
  return (number.integral && number.to(out)) || json.fail("expected a whole number, 0 or more");
}

bool read_handle(JsonCursor& json, std::string& out) {
  std::string text;
  bool ok = json.object([&](std::string_view key) { return key == "b64" ? json.string(text) : json.skip(); });
  if (!ok) return false;
  auto bytes = base::base64_decode(text);
  if (!bytes) return json.fail("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t");
  out = *std::move(bytes);
  return true;
}

Status read_registration(std::string_view body, pb::SystemSharedMemoryRegisterRequest& out) {
  JsonCursor json(body);
  bool has_key = false, has_size = false;
  uint64_t offset = 0, size = 0;
  bool ok = json.object([&](std::string_view key) {
    if (key == "key") return has_key = true, json.string(*out.mutable_key());
    if (key == "offset") return read_number(json, offset);
    if (key == "byte_size") return has_size = true, read_number(json, size);
    return json.skip();
  });
  if (!ok || !json.finish()) return json.placed_error();
  if (!has_key) return invalid("Shared memory register request has no 'key' field");
  if (!has_size) return invalid("Shared memory register request has no 'byte_size' field");
  out.set_offset(offset);
  out.set_byte_size(size);
  return {};
}

Status read_registration(std::string_view body, pb::CudaSharedMemoryRegisterRequest& out) {
  JsonCursor json(body);
  uint64_t device = 0, size = 0;
  bool ok = json.object([&](std::string_view key) {
    if (key == "raw_handle") return read_handle(json, *out.mutable_raw_handle());
    if (key == "device_id") return read_number(json, device);
    if (key == "byte_size") return read_number(json, size);
    return json.skip();
  });
  if (!ok || !json.finish()) return json.placed_error();
  if (out.raw_handle().empty()) return invalid("Shared memory register request has no 'raw_handle' field");
  out.set_device_id(int64_t(device));
  out.set_byte_size(size);
  return {};
}

template <class Wanted>
void serve_registration(OipState& state, Exchange& exchange, const PathArgs& args,
                        Status (*enter)(OipState&, const wire::Request&, const Wanted&)) {
  Wanted wanted;
  wanted.set_name(std::string(args["region"]));
  Status status = read_registration(exchange.content().view(), wanted);
  if (status.ok()) status = enter(state, exchange.request(), wanted);
  respond_done(exchange, status);
}

}  // namespace

void get_system_regions(OipState& state, Exchange& exchange, const PathArgs& args) {
  respond_regions(exchange, system_status(state, exchange.request(), args["region"]));
}
void register_system_region(OipState& state, Exchange& exchange, const PathArgs& args) {
  serve_registration(state, exchange, args, register_system);
}
void unregister_system_regions(OipState& state, Exchange& exchange, const PathArgs& args) {
  respond_done(exchange, unregister(state, exchange.request(), RegionKind::kSystem, args["region"]));
}
void get_cuda_regions(OipState& state, Exchange& exchange, const PathArgs& args) {
  respond_regions(exchange, cuda_status(state, exchange.request(), args["region"]));
}
void register_cuda_region(OipState& state, Exchange& exchange, const PathArgs& args) {
  serve_registration(state, exchange, args, register_cuda);
}
void unregister_cuda_regions(OipState& state, Exchange& exchange, const PathArgs& args) {
  respond_done(exchange, unregister(state, exchange.request(), RegionKind::kCuda, args["region"]));
}

}  // namespace weir::oip
