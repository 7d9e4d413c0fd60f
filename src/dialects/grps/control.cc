// Health and metadata: the calls that are answered at once.
#include "dialects/grps/mapping.h"
#include "dialects/grps/state.h"
#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using base::Status;

// JSON strings are YAML's quoted ones.
void line(std::string& out, std::string_view key, std::string_view value) {
  (out += key) += ": ";
  marshal::write_string(out, value);
  out += '\n';
}

void write_tensors(std::string& out, std::string_view key, const msg::ModelSpec& spec,
                   const std::vector<msg::TensorSpec>& tensors) {
  (out += key) += tensors.empty() ? ": []\n" : ":\n";
  for (const auto& t : tensors) {
    line(out, "- name", t.name);
    line(out, "  dtype", msg::name(t.dtype));
    out += "  shape: " + spec.public_shape(t).text() + '\n';
    if (t.optional) out += "  optional: true\n";
  }
}

void set_text(Message& reply, std::string yaml) {
  reply.kind = Kind::kStr;
  reply.data = base::Bytes::adopt(std::move(yaml));
}

}  // namespace

Status GrpsState::readiness() const {
  if (!ready()) return base::failure(base::Code::kUnavailable, "the server is not ready");
  if (!presence.online.load()) return base::failure(base::Code::kUnavailable, "the server is offline");
  return {};
}

Status go_online(GrpsState& state, const bus::Catalog&, const Message&, Message&) {
  state.presence.online.store(true);
  return {};
}

Status go_offline(GrpsState& state, const bus::Catalog&, const Message&, Message&) {
  state.presence.online.store(false);
  return {};
}

Status check_liveness(GrpsState&, const bus::Catalog&, const Message&, Message&) { return {}; }

Status check_readiness(GrpsState& state, const bus::Catalog&, const Message&, Message&) { return state.readiness(); }

Status server_metadata(GrpsState& state, const bus::Catalog& catalog, const Message&, Message& reply) {
  std::string out;
  line(out, "name", "weir");
  line(out, "version", state.options.server_version);
  if (!catalog.default_model.empty()) line(out, "default_model", catalog.default_model);
  const auto& index = catalog.index;
  out += index.empty() ? "models: []\n" : "models:\n";
  for (const auto& row : index) {
    line(out, "- name", row.name);
    line(out, "  version", row.version);
    line(out, "  state", bus::name(row.state));
    if (!row.reason.empty()) line(out, "  reason", row.reason);
  }
  set_text(reply, std::move(out));
  return {};
}

Status model_metadata(GrpsState&, const bus::Catalog& catalog, const Message& request, Message& reply) {
  std::string_view name = request.kind == Kind::kStr ? request.data.view() : std::string_view(request.model);
  auto found = find_model(catalog, name);
  if (!found) return found.error();
  const msg::ModelSpec& spec = (*found)->spec;
  std::string out;
  line(out, "name", spec.name);
  line(out, "version", spec.version);
  line(out, "platform", spec.platform);
  out += "max_batch_size: " + std::to_string(spec.max_batch) + '\n';
  out += std::string("dynamic_batching: ") + (spec.batching.dynamic ? "true\n" : "false\n");
  out += "instances: " + std::to_string(spec.instances) + '\n';
  out += std::string("streaming: ") + (spec.decoupled ? "true\n" : "false\n");
  write_tensors(out, "inputs", spec, spec.inputs);
  write_tensors(out, "outputs", spec, spec.outputs);
  set_text(reply, std::move(out));
  return {};
}

}  // namespace weir::grps
