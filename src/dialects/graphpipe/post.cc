// POST: an InferRequest becomes a Call and its Outputs the InferResponse; a MetadataRequest is answered at once.
#include <algorithm>

#include "base/attempt.h"
#include "base/client_slabs.h"
#include "bus/call_handle.h"
#include "dialects/graphpipe/infer_request.h"
#include "dialects/graphpipe/state.h"
#include "dialects/graphpipe/verify.h"
#include "marshal/call_times.h"
#include "marshal/check.h"
#include "marshal/tenant.h"
#include "wire/offload.h"

namespace weir::graphpipe {
namespace {

using base::Code;
using base::failure;
using base::Status;
using wire::Exchange;

// Where a request's Call goes to, as its path says.
struct Address {
  std::string model, version;
};

base::ClientRef client_of(Exchange& exchange) {
  const wire::PeerInfo* peer = exchange.request().peer;
  return peer ? peer->client : base::ClientRef();
}

// The body is aligned to 4 bytes.
class ReadBody final : public base::OffloadTask {
 public:
  ReadBody(base::Bytes from, const GraphPipeState& state, base::ClientRef client)
      : body(std::move(from)), state_(state), slabs_(state.slabs, std::move(client), state.options.share) {}
  void run() override {
    Status thrown = base::attempt("reading a request", [this] { status = read(); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  const base::Bytes body;
  Status status;  // after run(), as the rest
  const fb::Request* request = nullptr;
  std::vector<base::Bytes> strings;

 private:
  Status read() {
    auto verified = verify(body, state_.options.max_body);
    if (!verified) return verified.error();
    request = *verified;
    auto* infer = request->req() ? request->req_as_InferRequest() : nullptr;
    if (!infer) return {};
    auto read = read_strings(*infer, slabs_);
    if (!read) return read.error();
    strings = std::move(*read);
    return {};
  }

  const GraphPipeState& state_;
  base::ClientSlabs slabs_;
};

base::Result<std::vector<base::Bytes>> check_and_write(const std::vector<msg::Tensor>& tensors,
                                                       const std::vector<size_t>& order, base::SlabSource& slabs) {
  if (Status status = marshal::check_outputs(tensors); !status.ok()) return status;
  return write_tensors(tensors, order, slabs);
}

class WriteTensors final : public base::OffloadTask {
 public:
  WriteTensors(std::vector<msg::Tensor> tensors, std::vector<size_t> order, const GraphPipeState& state,
               base::ClientRef client)
      : tensors_(std::move(tensors)),
        order_(std::move(order)),
        slabs_(state.slabs, std::move(client), state.options.share) {}
  void run() override {
    Status thrown = base::attempt("writing an answer", [this] { pieces = check_and_write(tensors_, order_, slabs_); });
    if (!thrown.ok()) pieces = std::move(thrown);
  }

  base::Result<std::vector<base::Bytes>> pieces = Status();  // after run()

 private:
  const std::vector<msg::Tensor> tensors_;
  const std::vector<size_t> order_;
  base::ClientSlabs slabs_;
};

void respond_pieces(Exchange& exchange, base::Result<std::vector<base::Bytes>> pieces) {
  if (!pieces) return respond_failure(exchange, pieces.error());
  uint64_t total = 0;
  for (const auto& piece : *pieces) total += piece.size();
  wire::Response response;
  response.fields.add("content-type", kBinary);
  response.fields.add("content-length", std::to_string(total));
  exchange.head(std::move(response));
  for (auto& piece : *pieces) exchange.body(std::move(piece));
  exchange.end();
}

// One Call on behalf of one request.
class Inference final : public wire::ExchangeListener, public msg::Sink {
 public:
  Inference(GraphPipeState& state, Exchange& exchange) : state_(state), exchange_(exchange), call_(state.bus) {}

  // `read`: null where nothing has been read yet.
  void begin(const fb::InferRequest& request, const base::Bytes& body, const Address& address, const ReadBody* read) {
    msg::Call& call = call_.fill();
    call.model = address.model;
    call.version = address.version;
    Status status = fill(request, body, read, call);
    if (status.ok()) status = call_.submit(*served_, *this, exchange_.ticket());
    if (status.ok()) return;
    call_.abandon();
    respond_failure(exchange_, status);
  }
  void on_close(Exchange&, bool) override { call_.abandon(); }

 private:
  Status fill(const fb::InferRequest& request, const base::Bytes& body, const ReadBody* read, msg::Call& call) {
    if (auto* config = request.config())
      if (auto s = read_config({config->c_str(), config->size()}, call); !s.ok()) return s;
    auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(call.model, call.version);
    if (!found) return found.error();
    served_ = *found;
    const msg::ModelSpec& spec = served_->spec;
    call.model = spec.name;
    exchange_.record().model = spec.name;
    if (spec.decoupled) return too_often("may answer any number of times");
    const std::span<const base::Bytes> strings = read ? read->strings : std::span<const base::Bytes>();
    if (auto s = read_tensors(request, body, spec, state_.slabs, call, strings); !s.ok()) return s;
    asked_ = std::exchange(call.outputs, {});
    for (const auto& name : asked_)
      if (std::find(call.outputs.begin(), call.outputs.end(), name) == call.outputs.end()) call.outputs.push_back(name);
    if (auto s = check_types(spec, call); !s.ok()) return s;
    if (auto s = marshal::check_call(spec, call, marshal::StringLengths::kSkip); !s.ok()) return s;
    if (auto s = check_counts(request, call); !s.ok()) return s;
    call.version = spec.version;
    marshal::set_caller(call, exchange_);
    return {};
  }

  Status too_often(std::string_view what) const {
    return failure(Code::kUnimplemented,
                   "model '" + served_->spec.name + "' " + std::string(what) + ", which GraphPipe cannot say");
  }

  // The strings have been put together from a vector, so that their number is all that could be wrong.
  static Status check_counts(const fb::InferRequest& request, const msg::Call& call) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const msg::Tensor& tensor = call.inputs[i];
      if (tensor.dtype != msg::DType::kBytes) continue;
      auto* strings = request.input_tensors()->Get(uint32_t(i))->string_val();
      const uint64_t found = strings ? strings->size() : 0, wanted = tensor.shape.elements().value_or(0);
      if (found != wanted)
        return base::invalid_field("inputs[" + std::to_string(i) + "]",
                                   "input '" + tensor.name + "': " + std::to_string(found) + " BYTES elements, but " +
                                       std::to_string(wanted) + " by its shape " + tensor.shape.text());
    }
    return {};
  }

  // Outputs that could not be sent need not be computed.
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
    bool last = call_.on_event(event);
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    if (!last && !outputs) return;
    auto* failed = std::get_if<msg::Failed>(&event.what);
    Status status = failed ? std::move(failed->status) : bus::no_answer();
    if (outputs) status = outputs->final ? select(*outputs) : too_often("answers in more than one piece");
    call_.abandon();
    marshal::record_call(exchange_.record(), call);
    if (!status.ok()) return respond_failure(exchange_, status);
    answer(std::move(*outputs));
  }

  // Fills in order_: the outputs that were asked for, in the order asked for; all of them where none was.
  Status select(const msg::Outputs& outputs) {
    for (const auto& name : asked_) {
      auto at = marshal::find_output(served_->spec, outputs.tensors, name);
      if (!at) return std::move(at).error();
      order_.push_back(*at);
    }
    for (size_t i = 0; asked_.empty() && i < outputs.tensors.size(); ++i) order_.push_back(i);
    return marshal::check_outputs(outputs.tensors, marshal::StringLengths::kSkip);
  }

  // This may be destroyed by it.
  void answer(msg::Outputs&& outputs) {
    uint64_t strings = 0;
    for (size_t i : order_)
      if (outputs.tensors[i].dtype == msg::DType::kBytes) strings += strings_bytes(outputs.tensors[i]);
    if (strings <= wire::kLongBody || !state_.options.offload)
      return respond_pieces(exchange_, check_and_write(outputs.tensors, order_, base::heap()));
    auto then = [&exchange = exchange_](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
      if (!sent.ok()) return respond_failure(exchange, sent);
      respond_pieces(exchange, std::move(static_cast<WriteTensors&>(*task).pieces));
    };
    auto write =
        std::make_unique<WriteTensors>(std::move(outputs.tensors), std::move(order_), state_, client_of(exchange_));
    wire::run_on_worker(*state_.options.offload, std::move(write), strings, wire::Offload::Part::kAnswer, exchange_,
                        std::move(then));
  }

  GraphPipeState& state_;
  Exchange& exchange_;
  bus::CallHandle call_;
  std::vector<std::string> asked_;  // outputs by name, as the request has them
  std::vector<size_t> order_;       // outputs of the model, as the answer has them
  bus::Served* served_ = nullptr;   // looked up in this turn, then kept alive by the Call in flight
};

void metadata(GraphPipeState& state, Exchange& exchange, const Address& address) {
  auto found = state.bus.catalog(marshal::models_of(exchange.request())).resolve(address.model, address.version);
  if (!found) return respond_failure(exchange, found.error());
  exchange.record().model = (*found)->spec.name;
  exchange.respond(200, kBinary, write_metadata((*found)->spec, state.server()));
}

bool is_json(const Exchange& exchange) {
  return exchange.request().fields.find("content-type").starts_with("application/json");
}

// `read`: where the strings have been read already.
void go_on(GraphPipeState& state, Exchange& exchange, const Address& address, const fb::Request& request,
           const base::Bytes& body, const ReadBody* read) {
  if (request.req() && request.req_type() == fb::Req_MetadataRequest) return metadata(state, exchange, address);
  auto* infer = request.req() ? request.req_as_InferRequest() : nullptr;
  if (!infer)
    return respond_failure(exchange, base::invalid("the request is neither an InferRequest nor a MetadataRequest"));
  auto reader = std::make_unique<Inference>(state, exchange);
  Inference& inference = *reader;
  exchange.attach(std::move(reader));
  inference.begin(*infer, body, address, read);
}

void refuse(Exchange& exchange, const Status& status) {
  if (is_json(exchange) && status.code == Code::kInvalidArgument)  // a flatbuffer is taken whatever its type is
    return wire::respond_error(exchange, base::invalid("this path takes GraphPipe's flatbuffers; JSON requests go to "
                                                       "/v2/models/<model>/infer"));
  respond_failure(exchange, status);
}

constexpr uint64_t kMostHere = 4 * wire::kLongBody;  // bytes that a body denotes which is read where it came in

// `denoted`: bytes that the work is for.
void read_elsewhere(GraphPipeState& state, Exchange& exchange, Address address, base::Bytes body, uint64_t denoted) {
  auto then = [&state, &exchange, address](const Status& sent, std::unique_ptr<base::OffloadTask> task) {
    if (!sent.ok()) return respond_failure(exchange, sent);
    auto& read = static_cast<ReadBody&>(*task);
    if (!read.status.ok()) return refuse(exchange, read.status);
    go_on(state, exchange, address, *read.request, read.body, &read);
  };
  wire::run_on_worker(*state.options.offload, std::make_unique<ReadBody>(std::move(body), state, client_of(exchange)),
                      denoted, wire::Offload::Part::kRequest, exchange, std::move(then));
}

}  // namespace

void post(GraphPipeState& state, Exchange& exchange, const wire::PathArgs& args) {
  base::Bytes body = exchange.content();
  if (reinterpret_cast<uintptr_t>(body.data()) % 4 != 0) body = base::Bytes::copy_of(body.view());
  Address address{std::string(args["model"]), std::string(args["version"])};
  if (state.options.offload && body.size() > wire::kLongBody)
    return read_elsewhere(state, exchange, std::move(address), body, body.size());
  // A short body can denote much.
  const bool aside = state.options.offload != nullptr;
  auto request = verify(body, aside ? std::min(state.options.max_body, kMostHere) : state.options.max_body);
  if (!request && aside && request.error().code == Code::kResourceExhausted)
    return read_elsewhere(state, exchange, std::move(address), std::move(body), state.options.max_body);
  if (!request) return refuse(exchange, request.error());
  go_on(state, exchange, address, **request, body, nullptr);
}

}  // namespace weir::graphpipe
