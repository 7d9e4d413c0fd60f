#include "dialects/evergreen/message.h"

#include <algorithm>

#include "base/encoding.h"
#include "dialects/evergreen/graph/turn_budget.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"
#include "wire/rpc.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::Status;
using marshal::PbCountedReader;
using marshal::PbFields;
using marshal::PbReader;
using marshal::PbType;

constexpr std::string_view kTypePrefix = "type.googleapis.com/";

Status malformed(std::string_view what) { return base::invalid("malformed " + std::string(what)); }

// proto3 strings are UTF-8.
Status text(std::string_view bytes, std::string_view what) {
  if (marshal::valid_utf8(bytes)) return {};
  return base::invalid(std::string(what) + " is not UTF-8");
}

// Fields that nobody here knows are passed over, but a message does not consist of them; and a part of a message, a
// fragment or an action, has so many fields at all of its depths.
class Fields {
 public:
  static constexpr uint64_t kMost = 16 << 10;
  PbFields of_part{kMost};

  Status pass(const PbReader& r) {
    unknown_ += r.encoded_size();
    if (unknown_ > kMostUnknown) return base::invalid("more than 64 KiB of unknown fields in SessionMessage");
    return {};
  }
  // How the part has ended.
  Status end(Status s) const {
    if (!of_part.exceeded()) return s;
    return base::invalid("a fragment or an action has at most " + std::to_string(kMost) +
                         " fields; more children of a node are in its next fragments");
  }

 private:
  static constexpr size_t kMostUnknown = 64 << 10;
  size_t unknown_ = 0;
};

Status read_any(std::string_view bytes, Fields& fields, Packed& any) {
  constexpr size_t kLongestType = 1024;  // no type that is known is as long
  PbCountedReader r(bytes, fields.of_part);
  while (r.next()) {
    if (r.is(1, PbType::kBytes) && r.bytes().size() <= kLongestType)
      any.type = r.bytes().substr(r.bytes().rfind('/') + 1);
    else if (r.is(2, PbType::kBytes))
      any.value = r.bytes();
    else if (Status s = fields.pass(r); !s.ok())
      return s;
  }
  return r.ok() ? Status{} : malformed("google.protobuf.Any");
}

Status read_metadata(std::string_view bytes, Fields& fields, Metadata& m) {
  constexpr size_t kMost = 64 << 10;  // written as JSON, experimental parts take their time
  if (bytes.size() > kMost) return base::invalid("ChunkMetadata has at most " + std::to_string(kMost) + " bytes");
  m.mimetype.clear(), m.role.clear(), m.file_name.clear(), m.other.clear();
  PbCountedReader r(bytes, fields.of_part);
  while (r.next()) {
    if (r.is(1, PbType::kBytes)) {
      m.mimetype = r.bytes();
    } else if (r.is(2, PbType::kBytes)) {
      m.role = r.bytes();
    } else if (r.is(3, PbType::kBytes)) {
      m.file_name = r.bytes();
    } else if (r.type() == PbType::kBytes) {
      marshal::put_bytes(m.other, r.field(), r.bytes());
    } else if (Status s = fields.pass(r); !s.ok()) {
      return s;
    }
  }
  if (!r.ok()) return malformed("ChunkMetadata");
  if (Status s = text(m.mimetype, "ChunkMetadata.mimetype"); !s.ok()) return s;
  if (Status s = text(m.role, "ChunkMetadata.role"); !s.ok()) return s;
  return text(m.file_name, "ChunkMetadata.original_file_name");
}

// Each fragment uses the storage of the one before.
struct Scratch {
  Metadata metadata;
  std::vector<std::string_view> children;
  Fields fields;
};

Status read_chunk(const base::Bytes& message, std::string_view bytes, Scratch& scratch, Fragment& f,
                  std::string_view& reference) {
  PbCountedReader r(bytes, scratch.fields.of_part);
  while (r.next()) {
    if (r.is(1, PbType::kBytes)) {
      if (Status s = read_metadata(r.bytes(), scratch.fields, scratch.metadata); !s.ok()) return s;
      f.metadata = &scratch.metadata;
      f.has_chunk = true;
    } else if (r.is(3, PbType::kBytes)) {  // of a oneof, the last one counts
      reference = r.bytes();
      f.data = {};
      f.has_chunk = f.by_reference = true;
    } else if (r.is(10, PbType::kBytes)) {
      reference = {};
      f.data = message.slice(r.bytes());
      f.has_chunk = true, f.by_reference = false;
    } else if (Status s = scratch.fields.pass(r); !s.ok()) {
      return s;
    }
  }
  if (!r.ok()) return malformed("Chunk");
  return text(reference, "Chunk.ref");
}

// How long reading a part took, beside what is spent for its content.
uint64_t steps_of(const Fields& fields, size_t bytes) {
  constexpr uint64_t kFieldsPerStep = 16;
  return fields.of_part.count() / kFieldsPerStep + bytes / kBytesPerStep;
}

Status read_fragment(const base::Bytes& message, std::string_view bytes, Scratch& scratch, MessageSink& sink) {
  Fragment f;
  std::string_view reference;
  scratch.children.clear();
  scratch.fields.of_part.begin_again();
  PbCountedReader r(bytes, scratch.fields.of_part);
  while (r.next()) {
    Status s;
    if (r.is(1, PbType::kBytes)) {
      f.node = r.bytes();
      s = text(f.node, "NodeFragment.id");
    } else if (r.is(2, PbType::kVarint)) {
      f.seq = int32_t(r.number());
    } else if (r.is(3, PbType::kVarint)) {
      f.continued = r.number() != 0;
    } else if (r.is(4, PbType::kBytes)) {
      scratch.children.push_back(r.bytes());
      s = text(r.bytes(), "NodeFragment.child_ids");
    } else if (r.is(5, PbType::kBytes)) {
      s = read_chunk(message, r.bytes(), scratch, f, reference);
    } else {
      s = scratch.fields.pass(r);
    }
    if (!s.ok()) return s;
  }
  if (!r.ok()) return malformed("NodeFragment");
  f.children = scratch.children;
  f.read_steps = steps_of(scratch.fields, bytes.size() - f.data.size());
  return sink.on_fragment(f, reference);
}

Status read_named(std::string_view bytes, Fields& fields, std::vector<NamedNode>& to) {
  NamedNode& named = to.emplace_back();
  PbCountedReader r(bytes, fields.of_part);
  while (r.next()) {
    if (r.is(1, PbType::kBytes))
      named.name = r.bytes();
    else if (r.is(2, PbType::kBytes))
      named.id = r.bytes();
    else if (Status s = fields.pass(r); !s.ok())
      return s;
  }
  if (!r.ok()) return malformed("NamedParameter");
  if (Status s = text(named.name, "NamedParameter.name"); !s.ok()) return s;
  return text(named.id, "NamedParameter.id");
}

Status read_target(std::string_view bytes, Fields& fields, std::string& id) {
  PbCountedReader r(bytes, fields.of_part);
  while (r.next()) {
    if (r.is(1, PbType::kBytes))
      id = r.bytes();
    else if (Status s = fields.pass(r); !s.ok())
      return s;
  }
  if (!r.ok()) return malformed("TargetSpec");
  return text(id, "TargetSpec.id");
}

Status read_action(std::string_view bytes, Fields& fields, MessageSink& sink) {
  constexpr size_t kMost = 256;               // parameters and configurations: a few bytes each, but objects here
  constexpr size_t kMostConfigs = 320 << 10;  // a schema has 256 KiB
  constexpr size_t kConfigBytesPerStep = 32;  // protobuf's library reads them
  uint64_t config_bytes = 0;
  ActionRequest action;
  size_t parts = 0;
  fields.of_part.begin_again();
  PbCountedReader r(bytes, fields.of_part);
  while (r.next()) {
    Status s;
    if (r.type() == PbType::kBytes && ++parts > kMost)
      return base::invalid("an action has at most " + std::to_string(kMost) + " inputs, outputs and configurations");
    if (r.is(2, PbType::kBytes)) {
      action.name = r.bytes();
      s = text(r.bytes(), "Action.name");
    } else if (r.is(3, PbType::kBytes)) {
      s = read_named(r.bytes(), fields, action.inputs);
    } else if (r.is(4, PbType::kBytes)) {
      s = read_named(r.bytes(), fields, action.outputs);
    } else if (r.is(5, PbType::kBytes)) {
      config_bytes += r.bytes().size();
      if (config_bytes > kMostConfigs) return base::invalid("the configurations of an action have at most 320 KiB");
      s = read_any(r.bytes(), fields, action.configs.emplace_back());
    } else if (r.is(6, PbType::kBytes)) {
      s = read_target(r.bytes(), fields, action.target);
    } else {
      s = fields.pass(r);
    }
    if (!s.ok()) return s;
  }
  if (!r.ok()) return malformed("Action");
  action.read_steps = steps_of(fields, bytes.size()) + config_bytes / kConfigBytesPerStep;
  return sink.on_action(std::move(action));
}

void put_metadata(std::string& chunk, const Metadata& metadata) {
  std::string m;
  marshal::put_text(m, 1, metadata.mimetype);
  marshal::put_text(m, 2, metadata.role);
  marshal::put_text(m, 3, metadata.file_name);
  marshal::put_bytes(chunk, 1, m += metadata.other);
}

void json_text(std::string& out, std::string_view text) {
  out += '"';
  wire::append_json_text(out, text);
  out += '"';
}

// Appends an Any, if its message has a JSON form here.
bool json_any(std::string& out, std::string_view bytes, wire::JsonForm& json) {
  Packed any;
  Fields fields;
  if (!read_any(bytes, fields, any).ok()) return false;
  auto value = json.to_json(any.type, any.value);
  if (!value || value->size() < 2) return false;
  out += "{\"@type\":";
  json_text(out, std::string(kTypePrefix) + any.type);
  if (any.type.starts_with("google.protobuf."))  // well-known types have forms of their own, under a name
    return out += ",\"value\":" + *value + '}', true;
  if (value->size() > 2) out += ',';
  out.append(*value, 1);
  return true;
}

void json_metadata(std::string& out, const Metadata& m, wire::JsonForm& json) {
  auto named_text = [&](const char* name, const std::string& text) {
    if (text.empty()) return;
    out += name;
    json_text(out, text);
  };
  out += "\"metadata\":{\"mimetype\":";
  json_text(out, m.mimetype);
  named_text(",\"role\":", m.role);
  named_text(",\"originalFileName\":", m.file_name);
  std::string experimental, time;
  PbReader r(m.other);
  while (r.next()) {
    if (r.is(6, PbType::kBytes))
      if (auto text = json.to_json("google.protobuf.Timestamp", r.bytes())) time = std::move(*text);
    if (!r.is(100, PbType::kBytes)) continue;
    size_t before = experimental.size();
    if (before > 0) experimental += ',';
    if (!json_any(experimental, r.bytes(), json)) experimental.resize(before);
  }
  if (!time.empty()) out += ",\"captureTime\":" + time;
  if (!experimental.empty()) out += ",\"experimental\":[" + experimental + ']';
  out += '}';
}

// Sizes first, so that everything but the data is one string.
void append_head(std::string& head, const OutFragment& f) {
  auto field = [](uint32_t number, size_t n) {
    return marshal::varint_size(uint64_t(number) << 3) + marshal::varint_size(n) + n;
  };
  std::string metadata;
  if (f.has_metadata) put_metadata(metadata, f.metadata);
  const size_t chunk = metadata.size() + (f.has_chunk ? field(10, f.data.size()) : 0);
  size_t fragment =
      (f.node.empty() ? 0 : field(1, f.node.size())) + (f.continued ? 2 : 0) + (f.has_chunk ? field(5, chunk) : 0);
  if (f.seq > 0) fragment += 1 + marshal::varint_size(uint64_t(f.seq));
  for (const auto& child : f.children) fragment += field(4, child.size());

  head.reserve(std::max(head.capacity(), head.size() + field(1, fragment) - f.data.size()));
  marshal::put_tag(head, 1, PbType::kBytes);
  marshal::put_varint(head, fragment);
  marshal::put_text(head, 1, f.node);
  if (f.seq > 0) {
    marshal::put_tag(head, 2, PbType::kVarint);
    marshal::put_varint(head, uint64_t(f.seq));
  }
  if (f.continued) {
    marshal::put_tag(head, 3, PbType::kVarint);
    marshal::put_varint(head, 1);
  }
  for (const auto& child : f.children) marshal::put_bytes(head, 4, child);
  if (f.has_chunk) {
    marshal::put_tag(head, 5, PbType::kBytes);
    marshal::put_varint(head, chunk);
    head += metadata;
    marshal::put_tag(head, 10, PbType::kBytes);
    marshal::put_varint(head, f.data.size());
  }
}

}  // namespace

void put_any(std::string& metadata, const Packed& p) {
  std::string any;
  marshal::put_bytes(any, 1, std::string(kTypePrefix) + p.type);
  marshal::put_text(any, 2, p.value);
  marshal::put_bytes(metadata, 100, any);
}

Status read_message(const base::Bytes& message, size_t& at, MessageSink& sink) {
  Scratch scratch;
  PbReader r(message.view().substr(at));
  while (r.next()) {
    Status s;
    if (r.is(1, PbType::kBytes))
      s = scratch.fields.end(read_fragment(message, r.bytes(), scratch, sink));
    else if (r.is(2, PbType::kBytes))
      s = scratch.fields.end(read_action(r.bytes(), scratch.fields, sink));
    else
      s = scratch.fields.pass(r);
    if (!s.ok()) return s;
    if (sink.holds()) return {};
    at += r.encoded_size();
  }
  return r.ok() ? Status{} : malformed("SessionMessage");
}

void append_binary(std::string& out, const OutFragment& f) {
  append_head(out, f);
  out.append(f.data.view());
}

std::vector<base::Bytes> write_binary(const OutFragment& f) {
  std::string head;
  append_head(head, f);
  std::vector<base::Bytes> pieces;
  pieces.reserve(2);
  pieces.push_back(base::Bytes::adopt(std::move(head)));
  if (!f.data.empty()) pieces.push_back(f.data);
  return pieces;
}

void write_json_head(std::string& out, const OutFragment& f, wire::JsonForm& json) {
  out += "{\"nodeFragments\":[{\"id\":";
  json_text(out, f.node);
  if (f.seq > 0) out += ",\"seq\":" + std::to_string(f.seq);
  if (f.continued) out += ",\"continued\":true";
  if (!f.children.empty()) {
    out += ",\"childIds\":";
    char before = '[';
    for (const auto& child : f.children) {
      out += before;
      json_text(out, child);
      before = ',';
    }
    out += ']';
  }
  if (f.has_chunk) {
    out += ",\"chunkFragment\":{";
    if (f.has_metadata) {
      json_metadata(out, f.metadata, json);
      out += ',';
    }
    out += "\"data\":\"";
  }
}

std::string_view json_tail(const OutFragment& f) { return f.has_chunk ? "\"}}]}" : "}]}"; }

}  // namespace weir::evergreen
