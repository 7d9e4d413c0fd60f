#include "marshal/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include "marshal/message_reader.h"

namespace weir::marshal {
namespace {

namespace pb = google::protobuf;
using base::Code;

constexpr char kUrlPrefix[] = "type.googleapis.com";

base::Status no_such(std::string_view type) {
  return base::failure(Code::kInternal, "no message type " + std::string(type));
}

std::string url(std::string_view type) { return std::string(kUrlPrefix) + "/" + std::string(type); }

// How deep brackets nest outside of strings. Malformed text is the parser's business.
bool too_deep(std::string_view json) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > size_t(kMaxMessageDepth)) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

struct ProtoJson::Types {
  const pb::DescriptorPool* pool = pb::DescriptorPool::generated_pool();
  std::unique_ptr<pb::util::TypeResolver> resolver{pb::util::NewTypeResolverForDescriptorPool(kUrlPrefix, pool)};

  const pb::Descriptor* find(std::string_view type) const { return pool->FindMessageTypeByName(std::string(type)); }
};

ProtoJson::ProtoJson(size_t max_bytes, Names names)
    : types_(std::make_unique<Types>()), max_bytes_(max_bytes), names_(names) {}
ProtoJson::~ProtoJson() = default;

base::Result<std::string> ProtoJson::to_binary(std::string_view type, std::string_view json) {
  const pb::Descriptor* message = types_->find(type);
  if (!message) return no_such(type);
  if (json.size() > max_bytes_) return base::failure(Code::kResourceExhausted, "the JSON text is too long");
  if (auto read = read_message(*message, json, max_bytes_)) return *std::move(read);
  if (too_deep(json))
    return base::invalid("the JSON text is nested deeper than " + std::to_string(kMaxMessageDepth) + " levels");
  std::string out;
  auto status = pb::util::JsonToBinaryString(types_->resolver.get(), url(type), std::string(json), &out);
  if (!status.ok()) return base::invalid(std::string(status.message()));
  if (out.size() > max_bytes_) return base::failure(Code::kResourceExhausted, "the message is too long");
  return out;
}

base::Result<std::string> ProtoJson::to_json(std::string_view type, std::string_view binary) {
  if (!types_->find(type)) return no_such(type);
  if (binary.size() > max_bytes_) return base::failure(Code::kResourceExhausted, "the message is too long");
  pb::util::JsonPrintOptions options;
  options.preserve_proto_field_names = names_ == Names::kProto;
  std::string out;
  auto status = pb::util::BinaryToJsonString(types_->resolver.get(), url(type), std::string(binary), &out, options);
  if (!status.ok()) return base::invalid(std::string(status.message()));
  return out;
}

}  // namespace weir::marshal
