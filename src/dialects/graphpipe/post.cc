// POST: an InferRequest becomes a Call and its Outputs the InferResponse; a MetadataRequest is answered at once.
#include <algorithm>

#include "bus/owned_call.h"
#include "dialects/graphpipe/house.h"
#include "dialects/graphpipe/infer_request.h"
#include "dialects/graphpipe/verify.h"
#include "marshal/check.h"
#include "marshal/tenant.h"
#include "marshal/times.h"

namespace weir::graphpipe {
namespace {

using base::Code;
using base::failure;
using base::Status;
using wire::Exchange;

// One Call on behalf of one request.
class Inference final : public wire::Reader, public msg::Sink {
 public:
  Inference(House& house, Exchange& exchange) : house_(house), exchange_(exchange), owned_(house.bus) {}

  void begin(const fb::InferRequest& request, const base::Bytes& body, const wire::PathArgs& args) {
    msg::Call& call = owned_.fill();
    call.model = args["model"];
    call.version = args["version"];
    Status status = fill(request, body, call);
    if (status.ok()) status = owned_.submit(*served_, *this, exchange_.ticket());
    if (status.ok()) return;
    owned_.leave();
    respond_failure(exchange_, status);
  }
  void on_close(Exchange&, bool) override { owned_.leave(); }

 private:
  Status fill(const fb::InferRequest& request, const base::Bytes& body, msg::Call& call) {
    if (auto* config = request.config())
      if (auto s = read_config({config->c_str(), config->size()}, call); !s.ok()) return s;
    if (call.model.empty()) {
      auto model = house_.default_model();
      if (!model) return model.error();
      call.model = std::move(*model);
    }
    auto found = house_.bus.catalog().find(call.model, call.version);
    if (!found) return found.error();
    served_ = *found;
    const msg::ModelSpec& spec = served_->spec;
    exchange_.ledger().model = spec.name;
    if (spec.decoupled) return too_often("may answer any number of times");
    if (auto s = read_tensors(request, body, spec, house_.slabs, call); !s.ok()) return s;
    asked_ = std::exchange(call.outputs, {});
    for (const auto& name : asked_)
      if (std::find(call.outputs.begin(), call.outputs.end(), name) == call.outputs.end()) call.outputs.push_back(name);
    if (auto s = check_types(spec, call); !s.ok()) return s;
    if (auto s = marshal::check_call(spec, call); !s.ok()) return s;
    call.version = spec.version;
    call.tenant = marshal::tenant_of(exchange_.request());
    return {};
  }

  Status too_often(std::string_view what) const {
    return failure(Code::kUnimplemented,
                   "model '" + served_->spec.name + "' " + std::string(what) + ", which GraphPipe cannot say");
  }

  // What could not be sent need not be computed.
  static Status check_types(const msg::ModelSpec& spec, const msg::Call& call) {
    for (const auto& output : spec.outputs) {
      bool asked = call.outputs.empty() ||
                   std::find(call.outputs.begin(), call.outputs.end(), output.name) != call.outputs.end();
      if (asked && type_of(output.dtype) == fb::Type_Null && output.dtype != msg::DType::kInvalid)
        return failure(Code::kUnimplemented, "output '" + output.name + "' is " + std::string(msg::name(output.dtype)) +
                                                 ", for which GraphPipe has no type");
    }
    return {};
  }

  void on(msg::Call& call, msg::Event&& event) override {
    bool last = owned_.ended(event);
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    auto* failed = std::get_if<msg::Failed>(&event.what);
    Status status = failed ? std::move(failed->status) : failure(Code::kInternal, "the model gave no answer");
    if (outputs) status = outputs->final ? select(call, *outputs) : too_often("answers in more than one piece");
    if (!last && !outputs) return;
    owned_.leave();
    marshal::note(exchange_.ledger(), call);
    if (status.ok()) status = answer(*outputs);
    if (!status.ok()) respond_failure(exchange_, status);
  }

  // Which outputs were asked for, in the order asked for; all of them where none was.
  Status select(const msg::Call& call, const msg::Outputs& outputs) {
    for (const auto& name : asked_) {
      auto at = std::find_if(outputs.tensors.begin(), outputs.tensors.end(), [&](auto& t) { return t.name == name; });
      if (at == outputs.tensors.end())
        return failure(served_->spec.any_tensors ? Code::kInvalidArgument : Code::kInternal,
                       "model '" + call.model + "' made no output '" + name + "'");
      order_.push_back(size_t(at - outputs.tensors.begin()));
    }
    for (size_t i = 0; asked_.empty() && i < outputs.tensors.size(); ++i) order_.push_back(i);
    for (const auto& tensor : outputs.tensors)
      if (auto s = marshal::check_data(tensor, "output"); !s.ok()) return failure(Code::kInternal, s.text);
    return {};
  }

  Status answer(const msg::Outputs& outputs) {
    auto pieces = write_tensors(outputs.tensors, order_);
    if (!pieces) return pieces.error();
    uint64_t total = 0;
    for (const auto& piece : *pieces) total += piece.size();
    wire::Response response;
    response.fields.add("content-type", kBinary);
    response.fields.add("content-length", std::to_string(total));
    exchange_.head(std::move(response));
    for (auto& piece : *pieces) exchange_.body(std::move(piece));
    exchange_.end();
    return {};
  }

  House& house_;
  Exchange& exchange_;
  bus::OwnedCall owned_;
  std::vector<std::string> asked_;  // outputs by name, as the request has them
  std::vector<size_t> order_;       // outputs of the model, as the answer has them
  bus::Served* served_ = nullptr;   // looked up in this turn, then kept alive by the Call in flight
};

void metadata(House& house, Exchange& exchange, const wire::PathArgs& args) {
  std::string model(args["model"]);
  if (model.empty()) {
    auto chosen = house.default_model();
    if (!chosen) return respond_failure(exchange, chosen.error());
    model = std::move(*chosen);
  }
  auto found = house.bus.catalog().find(model, args["version"]);
  if (!found) return respond_failure(exchange, found.error());
  exchange.ledger().model = (*found)->spec.name;
  exchange.respond(200, kBinary, write_metadata((*found)->spec, house.server()));
}

}  // namespace

void post(House& house, Exchange& exchange, const wire::PathArgs& args) {
  base::Bytes body = exchange.content();
  if (reinterpret_cast<uintptr_t>(body.data()) % 4 != 0) body = base::Bytes::copy_of(body.view());
  auto request = verify(body, house.options.max_body);
  bool json = exchange.request().fields.find("content-type").starts_with("application/json");
  if (!request && json)  // a flatbuffer is taken whatever its type is said to be
    return wire::respond_error(exchange, base::invalid("this path takes GraphPipe's flatbuffers; JSON requests go to "
                                                       "/v2/models/<model>/infer"));
  if (!request) return respond_failure(exchange, request.error());
  if ((*request)->req() && (*request)->req_type() == fb::Req_MetadataRequest) return metadata(house, exchange, args);
  auto* infer = (*request)->req() ? (*request)->req_as_InferRequest() : nullptr;
  if (!infer)
    return respond_failure(exchange, base::invalid("the request is neither an InferRequest nor a MetadataRequest"));
  auto reader = std::make_unique<Inference>(house, exchange);
  Inference& inference = *reader;
  exchange.attach(std::move(reader));
  inference.begin(*infer, body, args);
}

}  // namespace weir::graphpipe
