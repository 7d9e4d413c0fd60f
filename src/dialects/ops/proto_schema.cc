#include "dialects/ops/proto_schema.h"

#include <google/protobuf/descriptor.h>

namespace weir::ops {
namespace {

namespace pb = google::protobuf;
using Json = nlohmann::ordered_json;

Json of(const char* type) { return {{"type", type}}; }

Json either(std::initializer_list<const char*> types) { return {{"type", types}}; }

Json enum_schema(const pb::EnumDescriptor& type) {
  Json names = Json::array();
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return {{"type", "string"}, {"enum", std::move(names)}};
}

Json value_schema(const pb::FieldDescriptor& field, Json& schemas) {
  using Type = pb::FieldDescriptor;
  switch (field.cpp_type()) {
    case Type::CPPTYPE_INT32:
    case Type::CPPTYPE_UINT32: return of("integer");
    case Type::CPPTYPE_INT64:
    case Type::CPPTYPE_UINT64: return either({"string", "integer"});
    case Type::CPPTYPE_FLOAT:
    case Type::CPPTYPE_DOUBLE: return either({"number", "string"});  // "NaN", "Infinity", "-Infinity"
    case Type::CPPTYPE_BOOL: return of("boolean");
    case Type::CPPTYPE_ENUM: return enum_schema(*field.enum_type());
    case Type::CPPTYPE_STRING:
      return field.type() == Type::TYPE_BYTES ? Json{{"type", "string"}, {"contentEncoding", "base64"}} : of("string");
    case Type::CPPTYPE_MESSAGE: break;
  }
  add_schema(*field.message_type(), schemas);
  return {{"$ref", "#/components/schemas/" + field.message_type()->full_name()}};
}

// Types of google.protobuf whose JSON is not that of their fields.
bool add_well_known(const pb::Descriptor& message, Json& schemas) {
  const std::string& name = message.full_name();
  if (name == "google.protobuf.Timestamp" || name == "google.protobuf.Duration" || name == "google.protobuf.FieldMask")
    schemas[name] = of("string");
  else if (name == "google.protobuf.Struct" || name == "google.protobuf.Any")
    schemas[name] = of("object");
  else if (name == "google.protobuf.Value" || name == "google.protobuf.ListValue" || name.ends_with("Value"))
    schemas[name] = Json::object();
  else
    return false;
  return true;
}

}  // namespace

void add_schema(const pb::Descriptor& message, Json& schemas) {
  if (schemas.contains(message.full_name())) return;
  if (message.file()->package() == "google.protobuf" && add_well_known(message, schemas)) return;
  schemas[message.full_name()] = of("object");  // messages may hold themselves
  Json properties = Json::object();
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.field(i);
    if (field.is_map())
      properties[field.name()] = {{"type", "object"},
                                  {"additionalProperties", value_schema(*field.message_type()->field(1), schemas)}};
    else if (field.is_repeated())
      properties[field.name()] = {{"type", "array"}, {"items", value_schema(field, schemas)}};
    else
      properties[field.name()] = value_schema(field, schemas);
  }
  schemas[message.full_name()]["properties"] = std::move(properties);
}

}  // namespace weir::ops
