#include "dialects/oip/pb_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "base/encoding.h"
#include "marshal/json_tensor.h"

namespace weir::oip {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using marshal::write_number;
using marshal::write_string;

// The value of a field, or its i-th when i >= 0.
void write_field(std::string& out, const Message& m, const FieldDescriptor* f, int i) {
  const Reflection* r = m.GetReflection();
  auto get = [&](auto one, auto many) { return i < 0 ? (r->*one)(m, f) : (r->*many)(m, f, i); };
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return write_number(out, int64_t(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32)));
    case FieldDescriptor::CPPTYPE_INT64:
      return write_number(out, int64_t(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return write_number(out, uint64_t(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return write_number(out, uint64_t(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return write_number(out, get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return write_number(out, get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_BOOL:
      out += get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      return write_string(out, get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text = get(&Reflection::GetString, &Reflection::GetRepeatedString);
      return write_string(out, f->type() == FieldDescriptor::TYPE_BYTES ? base::base64_encode(text) : text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return write_json(out, i < 0 ? r->GetMessage(m, f) : r->GetRepeatedMessage(m, f, i));
  }
}

void write_map(std::string& out, const Message& m, const FieldDescriptor* f) {
  const Reflection* r = m.GetReflection();
  const FieldDescriptor* key = f->message_type()->map_key();
  out += '{';
  for (int i = 0; i < r->FieldSize(m, f); ++i) {
    if (i) out += ',';
    const Message& entry = r->GetRepeatedMessage(m, f, i);
    std::string text;
    write_field(text, entry, key, -1);
    out += text.starts_with('"') ? text : '"' + text + '"';
    out += ':';
    write_field(out, entry, f->message_type()->map_value(), -1);
  }
  out += '}';
}

}  // namespace

void write_json(std::string& out, const Message& m) {
  const Reflection* r = m.GetReflection();
  out += '{';
  bool first = true;
  for (int n = 0; n < m.GetDescriptor()->field_count(); ++n) {
    const FieldDescriptor* f = m.GetDescriptor()->field(n);
    if (!f->is_repeated() && f->has_presence() && !r->HasField(m, f)) continue;
    if (!std::exchange(first, false)) out += ',';
    write_string(out, f->name());
    out += ':';
    if (f->is_map()) {
      write_map(out, m, f);
    } else if (!f->is_repeated()) {
      write_field(out, m, f, -1);
    } else {
      out += '[';
      for (int i = 0; i < r->FieldSize(m, f); ++i) {
        if (i) out += ',';
        write_field(out, m, f, i);
      }
      out += ']';
    }
  }
  out += '}';
}

}  // namespace weir::oip
