#include "dialects/grps/custom.h"

#include <optional>

#include "dialects/grps/inference.h"
#include "dialects/grps/pointer.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/stream.h"
#include "marshal/check.h"
#include "marshal/json_tensor.h"
#include "marshal/raw.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using msg::DType;
using msg::Tensor;
using wire::Exchange;

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = wire::lower(c);
  return out;
}

// "query:k" -> {"query", "k"}
std::pair<std::string_view, std::string_view> split(std::string_view source) {
  size_t colon = source.find(':');
  if (colon == source.npos) return {source, {}};
  return {source.substr(0, colon), source.substr(colon + 1)};
}

// What a response is made of: members in the order in which the configuration names them.
struct Node {
  std::string name;
  std::vector<Node> members;
  const Tensor* tensor = nullptr;

  Node& at(std::string_view pointer) {
    if (pointer.empty()) return *this;
    pointer.remove_prefix(1);
    size_t slash = pointer.find('/');
    std::string_view wanted = pointer.substr(0, slash);
    std::string_view rest = slash == pointer.npos ? std::string_view() : pointer.substr(slash);
    for (Node& member : members)
      if (member.name == wanted) return member.at(rest);
    members.emplace_back().name = wanted;
    return members.back().at(rest);
  }
};

std::string_view take_cells(const Tensor& t, std::string_view& rest, size_t n) {
  size_t bytes = 0;
  if (size_t width = msg::size_of(t.dtype)) {
    bytes = n * width;
  } else {
    for (; n > 0; --n) {
      uint32_t length;
      std::memcpy(&length, rest.data() + bytes, 4);
      bytes += 4 + size_t(length);
    }
  }
  std::string_view taken = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return taken;
}

void write_nested(std::string& out, const Tensor& t, marshal::BytesText text, std::string_view& rest, size_t depth) {
  out += '[';
  auto n = size_t(t.shape[depth]);
  if (depth + 1 == t.shape.rank()) {
    marshal::write_elements(out, t.dtype, take_cells(t, rest, n), {text});
  } else {
    for (size_t i = 0; i < n; ++i) {
      if (i) out += ',';
      write_nested(out, t, text, rest, depth + 1);
    }
  }
  out += ']';
}

void write(std::string& out, const Node& node) {
  if (const Tensor* t = node.tensor) {
    auto text = marshal::bytes_text(*t);
    std::string_view rest = t->data.view();
    if (t->shape.elements() == 1u) return marshal::write_elements(out, t->dtype, rest, {text});
    return write_nested(out, *t, text, rest, 0);
  }
  out += '{';
  for (const Node& member : node.members) {
    if (out.back() != '{') out += ',';
    marshal::write_string(out, member.name);
    out += ':';
    write(out, member);
  }
  out += '}';
}

class CustomInference final : public wire::Reader, public Inference {
 public:
  CustomInference(House& house, Exchange& exchange, const RouteSpec& spec)
      : Inference(house, exchange), route_(spec), parts_(house, exchange) {}

  void begin(const wire::PathArgs& args) {
    Status status = wish();
    std::string model = route_.model.empty() ? exchange_.request().query_value("model") : route_.model;
    if (status.ok()) status = find(model, streaming_ ? Answers::kMany : Answers::kOne);
    for (const auto& [input, source] : route_.inputs)
      if (status.ok()) status = fill(input, source, args);
    if (status.ok()) status = start();
    if (!status.ok()) leave(), respond(house_, exchange_, status);
  }
  void on_drain(Exchange&) override { repay(); }
  void on_close(Exchange&, bool) override { leave(); }

 private:
  // Whether this request is to be streamed.
  Status wish() {
    auto [where, key] = split(route_.streaming);
    std::string value;
    if (where == "query_param") {
      value = exchange_.request().query_value(key);
    } else if (where == "header_param") {
      value = exchange_.request().fields.find(lowered(key));
    } else if (where == "body_param") {
      auto found = find_value(exchange_.content().view(), key);
      if (!found) return found.error();
      value = *found;
    }
    streaming_ = wire::same_text(value, "true") || value == "1";
    return {};
  }

  Status fill(const std::string& input, std::string_view source, const wire::PathArgs& args) {
    const msg::TensorSpec* declared = spec().input(input);
    if (!declared && !spec().any_tensors) return invalid("model '" + spec().name + "' has no input '" + input + "'");
    auto [where, key] = split(source);
    if (source == "body") return fill_raw(input, declared);
    Tensor tensor{input, declared ? declared->dtype : DType::kBytes, {}, {}};
    std::string_view text;
    std::string held;
    if (where == "body") {
      auto found = find_value(exchange_.content().view(), key);
      if (!found) return found.error();
      text = *found;
    } else {
      if (where == "query")
        held = exchange_.request().query_value(key);
      else
        held = where == "header" ? exchange_.request().fields.find(lowered(key)) : args[key];
      // A word is text where the model wants text, else JSON: a number, or an array of them.
      if (tensor.dtype == DType::kBytes && !held.empty()) {
        std::string quoted;
        marshal::write_string(quoted, held);
        held = std::move(quoted);
      }
      text = held;
    }
    if (text.empty() || text == "null") {
      if (declared && declared->optional) return {};
      return invalid("the request has no " + std::string(source) + ", for input '" + input + "'");
    }
    if (!declared) tensor.dtype = text.find('"') == text.npos ? DType::kFp32 : DType::kBytes;
    if (Status status = read_value(text, house_.slabs, tensor); !status.ok()) return status;
    return place_shaped(std::move(tensor), declared);
  }

  // One value fills the declared shape, one row needs no batch dimension.
  Status place_shaped(Tensor tensor, const msg::TensorSpec* declared) {
    if (tensor.shape.rank() == 0) return place_scalar(std::move(tensor), spec(), house_.slabs, call());
    if (declared && spec().max_batch > 0 && tensor.shape.rank() == declared->shape.rank()) {
      msg::Shape one_row{1};
      for (int64_t dim : tensor.shape.dims()) one_row.push(dim);
      tensor.shape = one_row;
    }
    call().inputs.push_back(std::move(tensor));
    return {};
  }

  Status fill_raw(const std::string& input, const msg::TensorSpec* declared) {
    if (declared && declared == marshal::lone_input(spec()))
      return marshal::place_raw(exchange_.content(), spec(), call());
    std::string data;
    msg::append_string(data, exchange_.content().view());
    Tensor tensor{input, DType::kBytes, {}, base::Bytes::adopt(std::move(data))};
    return place_scalar(std::move(tensor), spec(), house_.slabs, call());
  }

  base::Result<base::Bytes> render(const std::vector<Tensor>& outputs) const {
    auto named = [&](const std::string& name) -> const Tensor* {
      for (const auto& t : outputs)
        if (t.name == name) return &t;
      return nullptr;
    };
    auto missing = [&](const std::string& name) {
      return base::failure(base::Code::kInternal, "model '" + spec().name + "' made no output '" + name + "'");
    };
    if (!route_.raw_output.empty()) {
      const Tensor* t = named(route_.raw_output);
      if (!t) return missing(route_.raw_output);
      bool one_string = t->dtype == DType::kBytes && t->shape.elements() == 1u;
      return one_string ? t->data.slice(4, t->data.size() - 4) : t->data;
    }
    for (const Tensor& t : outputs)
      if (Status status = marshal::check_nesting(t, "output"); !status.ok()) return status;
    Node root;
    for (const auto& [pointer, name] : route_.outputs) {
      const Tensor* t = named(name);
      if (!t) return missing(name);
      root.at(pointer).tensor = t;
    }
    if (route_.outputs.empty())
      for (const auto& t : outputs) root.members.push_back({t.name, {}, &t});
    std::string out;
    write(out, root);
    return base::Bytes::adopt(std::move(out));
  }

  Status answered(std::vector<Tensor> outputs, More more) override {
    if (streaming_ && more == More::kNo && outputs.empty()) return {};
    auto body = render(outputs);
    if (!body) return body.error();
    if (!streaming_) {
      answer_ = std::move(*body);
      return {};
    }
    parts_.open(route_.stream_content_type);
    parts_.raw(framed(*body));
    if (exchange_.backlog() <= Exchange::kHighWater) repay();
    return {};
  }

  base::Bytes framed(const base::Bytes& part) const {
    if (!route_.raw_output.empty() || house_.options.stream_format == StreamFormat::kGrps) return part;
    std::string out;
    if (house_.options.stream_format == StreamFormat::kSse)
      wire::append_sse(out, part.view());
    else
      out.append(part.view()) += '\n';
    return base::Bytes::adopt(std::move(out));
  }

  void ended(Status status) override {
    if (streaming_ && (status.ok() || exchange_.responding())) {
      parts_.open(route_.stream_content_type);
      return parts_.end(status);
    }
    if (status.ok() && !answer_) status = base::failure(base::Code::kInternal, "the model gave no answer");
    if (!status.ok()) return respond(house_, exchange_, status);
    std::string_view type = route_.content_type;
    if (type.empty()) type = route_.raw_output.empty() ? "application/json" : "application/octet-stream";
    exchange_.respond(int(route_.status), type, std::move(*answer_), Exchange::Compress::kIfAccepted);
  }

  const RouteSpec& route_;
  PartWriter parts_;
  bool streaming_ = false;
  std::optional<base::Bytes> answer_;
};

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  for (auto w : words)
    if (w == word) return true;
  return false;
}

}  // namespace

std::string check(const RouteSpec& route) {
  auto pointer = [](std::string_view p) { return p.empty() || p[0] == '/'; };
  if (route.path.size() < 2 || route.path[0] != '/') return "path: expected one like /classify";
  for (std::string_view own : {"/grps/", "/v1/", "/v2", "/v3/", "/openai/", "/evergreen/", "/metrics", "/livez",
                               "/readyz", "/health", "/graphpipe", "/grpc."})
    if (route.path.starts_with(own)) return "path: " + std::string(own) + " is weir's own";
  if (!one_of(route.method, {"GET", "POST", "PUT"})) return "method: expected GET, POST or PUT";
  if (route.inputs.empty()) return "inputs: expected at least one";
  for (const auto& [input, source] : route.inputs) {
    auto [where, key] = split(source);
    bool good = source == "body" || (where == "body" && pointer(key)) ||
                (one_of(where, {"query", "header", "path"}) && !key.empty());
    if (!good) return "inputs: expected query:KEY, header:KEY, path:KEY, body:/POINTER or body, got '" + source + "'";
  }
  for (const auto& [place, output] : route.outputs)
    if (place.empty() || place[0] != '/') return "outputs: expected a JSON pointer like /scores, got '" + place + "'";
  for (const auto& [place, output] : route.outputs)
    for (const auto& [other, unused] : route.outputs)
      if (other.starts_with(place + "/")) return "outputs: '" + other + "' lies inside '" + place + "'";
  if (!route.outputs.empty() && !route.raw_output.empty()) return "outputs and raw_output exclude each other";
  if (route.status < 200 || route.status > 599) return "status: expected 200 to 599";
  auto [where, key] = split(route.streaming);
  bool stream = route.streaming.empty() || (one_of(where, {"query_param", "header_param"}) && !key.empty()) ||
                (where == "body_param" && !key.empty() && pointer(key));
  if (!stream) return "streaming: expected query_param:KEY, header_param:KEY or body_param:/POINTER";
  return {};
}

void CustomRoute::serve(Exchange& exchange, const wire::PathArgs& args) {
  auto reader = std::make_unique<CustomInference>(house_, exchange, spec_);
  CustomInference& inference = *reader;
  exchange.attach(std::move(reader));
  inference.begin(args);
}

void add_custom_routes(House& house, wire::Router& router, std::vector<std::unique_ptr<CustomRoute>>& services) {
  for (const RouteSpec& spec : house.options.routes) {
    auto* service = services.emplace_back(std::make_unique<CustomRoute>(house, spec)).get();
    wire::Plan plan{spec.method == "GET" ? wire::BodyPlan::kIgnore : wire::BodyPlan::kWhole, house.options.max_body};
    router.add({spec.method, spec.path, service, kRest, plan});
  }
}

}  // namespace weir::grps
