// generate.h for models of tensors.
#include "dialects/oip/generate.h"
#include "dialects/oip/inference.h"
#include "dialects/oip/rest.h"
#include "marshal/json_nested.h"
#include "marshal/json_tensor.h"
#include "wire/sse.h"

namespace weir::oip {
namespace {

using base::Status;
using marshal::JsonCursor;
using wire::Exchange;

// Consumes a value and counts what is in it that is no list.
bool count(JsonCursor& json, uint64_t& elements) {
  if (json.peek() == JsonCursor::Kind::kArray) return json.array([&] { return count(json, elements); });
  ++elements;
  return json.skip();
}

// The declared shape with one row, for a list of so many elements. Of several dimensions that are not declared each is
// as long as the lists of its level, where the list has as many levels. Otherwise the last one takes what there is and
// the others are 1, as in Triton.
msg::Shape settle_shape(const msg::ModelSpec& spec, const msg::TensorSpec& input, const std::string& list,
                        uint64_t elements) {
  msg::Shape shape = spec.public_shape(input);
  if (spec.max_batch > 0 && shape.rank() > 0) shape[0] = 1;
  size_t open = 0, last = shape.rank();
  for (size_t i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0) ++open, last = i;
  JsonCursor json(list);
  msg::Shape nested;
  const bool leveled = open > 1 && marshal::measure_nested(json, nested) && nested.rank() == shape.rank();
  uint64_t known = 1;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i == last) continue;
    if (shape[i] < 0) shape[i] = leveled ? nested[i] : 1;
    known *= uint64_t(shape[i]);
  }
  if (last < shape.rank()) shape[last] = known == 0 ? 0 : int64_t(elements / known);
  return shape;
}

class TensorRequest {
 public:
  TensorRequest(base::SlabSource& slabs, const msg::ModelSpec& spec, msg::Call& call, InferOptions& options)
      : slabs_(slabs), spec_(spec), call_(call), options_(options) {}

  Status read(std::string_view body) {
    JsonCursor json(body);
    bool good = json.object([&](std::string_view key) { return member(json, std::string(key)); }) && json.finish();
    if (good) return {};
    return status_.ok() ? json.placed_error() : std::move(status_);
  }

 private:
  bool refuse(JsonCursor& json, Status status) {
    if (status_.ok()) status_ = std::move(status);
    return json.refuse();
  }

  bool member(JsonCursor& json, const std::string& name) {
    if (const msg::TensorSpec* input = spec_.input(name)) return tensor(json, *input);
    if ((name == "id" || name == "parameters") && json.peek() == JsonCursor::Kind::kNull) return json.skip();
    if (name == "id" && json.peek() == JsonCursor::Kind::kString) return json.string(call_.id);
    if (name != "parameters") return parameter(json, name);
    if (json.peek() != JsonCursor::Kind::kObject) return refuse(json, base::invalid("parameters: expected an object"));
    return json.object([&](std::string_view key) { return parameter(json, std::string(key)); });
  }

  bool parameter(JsonCursor& json, const std::string& name) {
    if (Status bad = check_name(name, "a parameter's name"); !bad.ok()) return refuse(json, std::move(bad));
    msg::ParamValue value;
    if (!read_parameter(json, value)) return false;
    Status status = apply(call_, options_, name, std::move(value));
    return status.ok() || refuse(json, std::move(status));
  }

  bool tensor(JsonCursor& json, const msg::TensorSpec& input) {
    size_t at = json.at();
    uint64_t elements = 0;
    if (!count(json, elements)) return false;
    std::string list(json.since(at));
    if (list.front() != '[') list = "[" + list + "]";
    msg::Tensor& t = call_.inputs.emplace_back();
    t.name = input.name, t.dtype = input.dtype;
    t.shape = settle_shape(spec_, input, list, elements);
    JsonCursor data(list);
    Status status = marshal::read_data(data, t, slabs_);
    return status.ok() || refuse(json, std::move(status));
  }

  base::SlabSource& slabs_;
  const msg::ModelSpec& spec_;
  msg::Call& call_;
  InferOptions& options_;
  Status status_;
};

// Parameters stand beside the outputs, which go first where both have a name.
bool is_taken(std::string_view name, const InferReply& reply) {
  if (name == "id" || name == "model_name" || name == "model_version") return true;
  return std::any_of(reply.tensors.begin(), reply.tensors.end(), [&](const auto& t) { return t.name == name; });
}

std::string write_reply(const InferReply& reply) {
  std::string out = reply_head(reply.id, reply.model, reply.version);
  for (const auto& [name, value] : reply.parameters) {
    if (is_taken(name, reply)) continue;
    out += ',';
    write_parameter(out, name, value);
  }
  for (const auto& tensor : reply.tensors) {
    out += ',';
    marshal::write_string(out, tensor.name);
    out += ':';
    auto form = marshal::bytes_text(tensor);
    if (tensor.shape.elements() == uint64_t(1))
      marshal::write_elements(out, tensor.dtype, tensor.data.view(), {form});
    else
      marshal::write_data(out, tensor, form);
  }
  return out + "}";
}

JsonReply write_whole(const InferReply& reply, const OutputForms&) {
  JsonReply whole;
  whole.json = write_reply(reply);
  return whole;
}

JsonReply write_streamed(const InferReply& reply, const OutputForms&) {
  JsonReply event;
  wire::append_sse(event.json, write_reply(reply));
  return event;
}

class TensorGenerate final : public wire::ExchangeListener, public Inference {
 public:
  TensorGenerate(OipState& state, Exchange& exchange, Delivery delivery)
      : Inference(state, exchange, kRest, delivery == Delivery::kStream ? "" : "generate_stream") {}

  void begin(const wire::PathArgs& args) {
    call().model = args["model"];
    call().version = args["version"];
    if (streams()) limit_answers();
    const base::Bytes body = request_of(exchange_);
    Status status = find();
    if (status.ok() && body.size() > kLongRequest) {
      auto read = [body, slabs = &state_.slabs, spec = &spec()](msg::Call& call, InferOptions& options) {
        return TensorRequest(*slabs, *spec, call, options).read(body.view());
      };
      status = read_on_worker(body.size(), std::move(read));
    } else {
      if (status.ok()) status = TensorRequest(state_.slabs, spec(), call(), options).read(body.view());
      if (status.ok()) status = run();
    }
    if (!status.ok()) respond_error(exchange_, status);
  }
  void on_close(Exchange&, bool) override { leave(); }
  void on_drain(Exchange&) override { drained(); }

 private:
  Status run() {
    if (streams()) events_.keep_alive();
    return start();
  }
  void request_read(Status status) override {
    if (status.ok()) status = run();
    if (!status.ok()) respond_error(exchange_, status);
  }
  Writes writes() const override { return Writes::kJson; }
  WriteAnswer::Write writer() const override { return streams() ? write_streamed : write_whole; }
  void written(WriteAnswer& answer, More) override {
    if (!streams() || !answer.empty()) take(std::move(answer.written.json));
  }
  void answered(const InferReply& reply, const OutputForms&, More) override {
    if (!streams() || !reply.tensors.empty()) take(writer()(reply, {}).json);
  }
  // The text of an answer, as writer() makes it.
  void take(std::string text) {
    if (!streams()) {
      reply_ = std::move(text);
      return;
    }
    events_.send_text(std::move(text));
  }
  void ended(const Status& status) override {
    exchange_.record().set_outcome(status);
    if (!status.ok()) return streams() ? events_.fail(status) : respond_error(exchange_, status);
    if (!streams()) return respond_inferred(exchange_, std::move(reply_));
    events_.end();
  }

  EventStream events_{exchange_, state_.bus.env()};  // where any number is
  std::string reply_;                                // where one answer is taken
};

}  // namespace

void generate_tensors(OipState& state, Exchange& exchange, const wire::PathArgs& args, Delivery delivery) {
  auto reader = std::make_unique<TensorGenerate>(state, exchange, delivery);
  TensorGenerate& request = *reader;
  exchange.attach(std::move(reader));
  request.begin(args);
}

}  // namespace weir::oip
