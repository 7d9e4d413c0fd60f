#include "dialects/grps/route_inputs.h"

#include <new>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "dialects/grps/json_pointer.h"
#include "dialects/grps/mapping.h"
#include "marshal/raw_input.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using msg::DType;
using msg::Tensor;

// Behind the "data:image/png;base64," with which web pages begin what they have read.
std::string_view without_data_url(std::string_view text) {
  size_t comma = text.substr(0, 256).find(',');
  bool url = comma != text.npos && text.starts_with("data:") && text.substr(0, comma).ends_with(";base64");
  return url ? text.substr(comma + 1) : text;
}

}  // namespace

std::optional<Source> read_source(std::string_view text) {
  using enum Source::Place;
  Source source;
  if (text.starts_with("base64:")) {
    source.coding = Source::Coding::kBase64;
    text.remove_prefix(7);
  }
  if (text == "body") return source;
  size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  std::string_view place = text.substr(0, colon);
  source.key = text.substr(colon + 1);
  if (place == "body") {
    source.place = kPointer;
    if (!source.key.empty() && source.key[0] != '/') return std::nullopt;
    return source;
  }
  if (source.key.empty()) return std::nullopt;
  constexpr std::pair<std::string_view, Source::Place> kPlaces[] = {
      {"query", kQuery}, {"header", kHeader}, {"path", kPath}, {"form", kForm}};
  for (auto [name, value] : kPlaces)
    if (place == name) return source.place = value, source;
  return std::nullopt;
}

bool reads_body(std::string_view source) {
  auto from = read_source(source);
  if (!from) return false;
  return from->place == Source::Place::kPointer || from->place == Source::Place::kForm ||
         from->place == Source::Place::kBody;
}

Status RouteInputs::fill(const std::string& input, std::string_view source, const msg::ModelSpec& spec,
                         msg::Call& call) {
  const msg::TensorSpec* declared = spec.input(input);
  if (!declared && !spec.any_tensors) return invalid("model '" + spec.name + "' has no input '" + input + "'");
  auto from = read_source(source);
  if (!from) return base::failure(base::Code::kInternal, "the route has no such source: " + std::string(source));
  auto value = find(*from);
  if (!value) return value.error();
  if (value->form == Value::BodyKind::kNothing) {
    if (declared && declared->optional) return {};
    return invalid("the request has no " + std::string(source) + ", for input '" + input + "'");
  }
  if (from->coding == Source::Coding::kBase64)
    if (Status status = decode(source, *value); !status.ok()) return status;
  return set_input(input, *value, spec, call);
}

base::Result<RouteInputs::Value> RouteInputs::find(const Source& source) {
  using enum Source::Place;
  auto word = [](std::string text) {
    return text.empty() ? Value{} : Value{Value::BodyKind::kWord, base::Bytes::adopt(std::move(text))};
  };
  switch (source.place) {
    case kQuery: return word(query_field(request_.query(), source.key));
    case kPath: return word(std::string(args_[source.key]));
    case kForm: return find_field(source.key);
    case kBody: return Value{Value::BodyKind::kOctets, body_};
    case kHeader: {
      std::string name(source.key);
      wire::make_lower(name.data(), name.size());
      return word(std::string(request_.fields.find(name)));
    }
    case kPointer: break;
  }
  auto found = find_value(body_.view(), source.key);
  if (!found) return found.error();
  if (found->empty() || *found == "null") return Value{};
  return Value{Value::BodyKind::kJson, body_.slice(*found)};
}

base::Result<RouteInputs::Value> RouteInputs::find_field(std::string_view name) {
  if (!form_) {
    auto form = FormData::read(request_.fields.find("content-type"), body_);
    if (!form) return form.error();
    form_ = std::move(*form);
  }
  const FormData::Field* field = form_->find(name);
  if (!field) return Value{};
  bool octets = field->type == FormData::Field::Type::kOctets;
  return Value{octets ? Value::BodyKind::kOctets : Value::BodyKind::kWord, field->value};
}

base::Bytes RouteInputs::charged(std::string text) const {
  auto bytes = base::adopt(slabs_.ledger(), base::MemoryKind::kDecoding, std::move(text));
  if (!bytes) throw std::bad_alloc();
  return *std::move(bytes);
}

Status RouteInputs::decode(std::string_view source, Value& value) const {
  std::string held;
  if (value.form == Value::BodyKind::kJson) {
    marshal::JsonCursor json(value.bytes.view());
    if (json.peek() != marshal::JsonCursor::Kind::kString || !json.string(held))
      return invalid(std::string(source) + ": expected a string");
    value.bytes = charged(std::move(held));
  }
  auto decoded = base::base64_decode(without_data_url(value.bytes.view()));
  if (!decoded) return invalid(std::string(source) + " is not base64");
  value = {Value::BodyKind::kOctets, charged(*std::move(decoded))};
  return {};
}

Status RouteInputs::set_input(const std::string& input, const Value& value, const msg::ModelSpec& spec,
                              msg::Call& call) {
  const msg::TensorSpec* declared = spec.input(input);
  bool octets = value.form == Value::BodyKind::kOctets;
  if (octets && declared) return marshal::set_raw_input(value.bytes, spec, *declared, slabs_, call);
  bool text = octets || (value.form == Value::BodyKind::kWord && (!declared || declared->dtype == DType::kBytes));
  if (!text) return place_json(input, value.bytes.view(), spec, call);
  return set_scalar_input({input, DType::kBytes, {}, marshal::one_element(value.bytes.view(), slabs_)}, spec, slabs_,
                          call);
}

// One value fills the declared shape, one row needs no batch dimension.
Status RouteInputs::place_json(const std::string& input, std::string_view json, const msg::ModelSpec& spec,
                               msg::Call& call) {
  const msg::TensorSpec* declared = spec.input(input);
  Tensor tensor{input, declared ? declared->dtype : DType::kFp32, {}, {}};
  if (!declared && json.find('"') != json.npos) tensor.dtype = DType::kBytes;
  if (Status status = read_value(json, slabs_, tensor); !status.ok()) return status;
  if (tensor.shape.rank() == 0) return set_scalar_input(std::move(tensor), spec, slabs_, call);
  if (declared && spec.max_batch > 0 && tensor.shape.rank() == declared->shape.rank()) {
    msg::Shape one_row{1};
    for (int64_t dim : tensor.shape.dims()) one_row.push(dim);
    tensor.shape = one_row;
  }
  call.inputs.push_back(std::move(tensor));
  return {};
}

}  // namespace weir::grps
