// LIST_ACTIONS lists the actions with their parameters, for clients that choose by description.
//
//   output  actions: weir.evergreen.v1.ActionList (proto/evergreen_config.proto), as JSON in the data and packed in the
//           metadata
//   target  a model: only the actions that it takes, INFER with the model's own tensors. Without one: all actions
#include <algorithm>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/schema.h"
#include "dialects/evergreen/tensor_chunk.h"
#include "evergreen_config.pb.h"

namespace weir::evergreen {
namespace {

using base::Status;
using Works = Schema::Works;

namespace v1 = ::weir::evergreen::v1;

constexpr std::string_view kList = "weir.evergreen.v1.ActionList";

// "text/plain;charset=utf-8", in its parts.
void put_type(std::string_view mimetype, v1::Mimetype& out) {
  size_t semicolon = std::min(mimetype.find(';'), mimetype.size());
  std::string_view parameter = mimetype.substr(semicolon);
  mimetype = mimetype.substr(0, semicolon);
  size_t slash = std::min(mimetype.find('/'), mimetype.size() - 1);
  out.set_type(std::string(mimetype.substr(0, slash)));
  out.set_subtype(std::string(mimetype.substr(slash + 1)));
  size_t equals = parameter.find('=');
  if (equals != parameter.npos)
    (*out.mutable_parameters())[std::string(parameter.substr(1, equals - 1))] = parameter.substr(equals + 1);
}

void put(const Parameter& p, v1::ParameterSchema& out) {
  out.set_name(std::string(p.name));
  out.set_description(std::string(p.description));
  out.set_required(p.required);
  if (!p.alias.empty()) out.add_aliases(std::string(p.alias));
  for (std::string_view types = p.types; !types.empty();) {
    std::string_view type = types.substr(0, types.find(','));
    types.remove_prefix(std::min(type.size() + 1, types.size()));
    put_type(type, *out.add_type());
  }
}

void put(const msg::ModelSpec& model, const msg::TensorSpec& tensor, v1::ParameterSchema& out) {
  out.set_name(tensor.name);
  v1::Mimetype& type = *out.add_type();
  put_type(kTensorType, type);
  msg::Shape shape = model.public_shape(tensor);
  std::string dims;
  for (size_t i = 0; i < shape.rank(); ++i) dims += (i ? "," : "") + std::to_string(shape[i]);
  (*type.mutable_parameters())["dtype"] = std::string(msg::name(tensor.dtype));
  (*type.mutable_parameters())["shape"] = dims;
}

bool takes(const msg::ModelSpec& model, Works works) {
  switch (works) {
    case Works::kAtOnce: return true;
    case Works::kText: return model.text != nullptr;
    case Works::kTokens: return model.text || (model.encoder && model.encoder->codec);
    case Works::kEmbeddings: return takes(model, Works::kTokens) && bus::has(model, bus::Needs::kEmbeddings);
    case Works::kTensors: break;
  }
  return !model.text;
}

void put(const Schema& schema, const msg::ModelSpec* model, v1::ActionSchema& out) {
  out.set_name(std::string(schema.name));
  out.set_description(std::string(schema.description));
  if (!schema.config.empty()) out.add_configs(std::string(schema.config));
  const bool own = model && schema.works == Works::kTensors && !model->any_tensors;
  for (const Parameter& p : schema.inputs)
    if (!own) put(p, *out.add_inputs());
  for (const Parameter& p : schema.outputs)
    if (!own || p.name != kAnyName) put(p, *out.add_outputs());
  if (own) {
    for (const auto& tensor : model->inputs) {
      put(*model, tensor, *out.add_inputs());
      out.mutable_inputs()->rbegin()->set_required(!tensor.optional);
    }
    for (const auto& tensor : model->outputs) put(*model, tensor, *out.add_outputs());
  }
  put(Parameter{kStatus, "", "application/json", false, "How it went; a failure then does not end the session."},
      *out.add_outputs());
}

class ListActions final : public ModelAction {
 public:
  using ModelAction::ModelAction;

 private:
  Status begin() override {
    const msg::ModelSpec* model = nullptr;
    if (!request_.target.empty()) {
      if (Status s = find(bus::Needs::kAnything); !s.ok()) return s;
      model = &spec();
    }
    Output* out = output({"actions"});
    if (!out) return {};
    v1::ActionList list;
    for (const Schema& schema : schemas())
      if (offered(schema, session_.state()) && (!model || takes(*model, schema.works)))
        put(schema, model, *list.add_actions());
    return write_list(*out, list.SerializeAsString());
  }

  Status write_list(Output& out, std::string list) {
    auto json = session_.state().json.to_json(kList, list);
    if (!json) return std::move(json).error();
    std::vector<Packed> packed{{std::string(kList), std::move(list)}};
    out.begin(std::string(kJsonType), {}, packed);
    return out.write(base::Bytes::adopt(std::move(*json)), Output::More::kNo);
  }

  Status go_on() override {
    done();
    return {};
  }
};

}  // namespace

std::unique_ptr<Action> make_list_actions(Session& session, ActionRequest&& request) {
  return std::make_unique<ListActions>(session, std::move(request));
}

}  // namespace weir::evergreen
