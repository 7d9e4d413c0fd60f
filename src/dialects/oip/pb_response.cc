// The writing half of pb_infer.h.
#include <cstring>

#include "base/recycled.h"
#include "dialects/oip/pb_infer.h"
#include "marshal/pb_wire.h"

namespace weir::oip {
namespace {

using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_text;
using marshal::put_varint;
using marshal::varint_size;

constexpr size_t kInline = 4096;  // tensors up to this size are copied into the head: cheaper than a piece of their own
constexpr size_t kEnvelope = 11;  // room for the tag and length of infer_response

void put_parameter(std::string& out, const std::string& name, const msg::ParamValue& value) {
  std::string v;
  std::visit(
      [&v](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::string>) {
          put_bytes(v, 3, x);
        } else if constexpr (std::is_same_v<T, double>) {
          put_tag(v, 4, PbType::kFixed64);
          v.append(reinterpret_cast<const char*>(&x), 8);
        } else {
          put_tag(v, std::is_same_v<T, bool> ? 1 : std::is_same_v<T, int64_t> ? 2 : 5, PbType::kVarint);
          put_varint(v, uint64_t(x));
        }
      },
      value);
  std::string entry;
  put_bytes(entry, 1, name);
  put_bytes(entry, 2, v);
  put_bytes(out, 4, entry);
}

// A message's text in memory that has room for all of it (most_size). Written byte by byte into a string a small answer
// took 700 instructions more.
class Text {
 public:
  explicit Text(char* to) : to_(to) {}
  char* end() const { return to_; }

  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) *to_++ = char(uint8_t(v) | 0x80);
    *to_++ = char(v);
  }
  // The field is below 16.
  void tag(uint32_t field, PbType type) { *to_++ = char(field << 3 | uint32_t(type)); }
  void raw(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  void bytes(uint32_t field, std::string_view value) {
    tag(field, PbType::kBytes);
    varint(value.size());
    raw(value);
  }
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) bytes(field, value);
  }

 private:
  char* to_;
};

size_t dims_size(const msg::Shape& shape) {
  size_t n = 0;
  for (int64_t d : shape.dims()) n += varint_size(uint64_t(d));
  return n;
}

void put_output(Text& out, const msg::Tensor& tensor) {
  std::string_view dtype = msg::name(tensor.dtype);
  size_t dims = dims_size(tensor.shape);
  size_t size = tensor.name.empty() ? 0 : 1 + varint_size(tensor.name.size()) + tensor.name.size();
  size += 2 + dtype.size();
  if (dims) size += 1 + varint_size(dims) + dims;
  out.tag(5, PbType::kBytes);
  out.varint(size);
  out.text(1, tensor.name);
  out.text(2, dtype);
  if (!dims) return;
  out.tag(3, PbType::kBytes);
  out.varint(dims);
  for (int64_t d : tensor.shape.dims()) out.varint(uint64_t(d));
}

void put_head(Text& out, const InferReply& reply, std::string_view parameters) {
  out.text(1, reply.model);
  out.text(2, reply.version);
  out.text(3, reply.id);
  out.raw(parameters);
  for (const auto& tensor : reply.tensors) put_output(out, tensor);
}

// A tensor in shared memory has no bytes in the message, but its place among the others.
size_t size_in(const InferReply& reply, size_t tensor) {
  return reply.shared(tensor) ? 0 : reply.tensors[tensor].data.size();
}

// No answer's head, with the small tensors behind it, is longer.
size_t most_size(const InferReply& reply, std::string_view parameters) {
  constexpr size_t kField = 1 + 10;  // a tag and a varint
  size_t n = kEnvelope + 3 * kField + reply.model.size() + reply.version.size() + reply.id.size() + parameters.size();
  for (const auto& t : reply.tensors) {
    n += 5 * kField + t.name.size() + msg::name(t.dtype).size() + 10 * t.shape.rank();
    n += t.data.size() <= kInline ? t.data.size() : 0;
  }
  return n;
}

// The message from `at` on, with the large tensors where they belong in it: at `cuts`.
std::vector<base::Bytes> cut(const base::Bytes& message, size_t at, const std::vector<size_t>& cuts,
                             const InferReply& reply) {
  auto pieces = base::SpareVector<base::Bytes>::take();
  pieces.reserve(2 * cuts.size() + 1);
  size_t next = 0;
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    if (size_in(reply, i) <= kInline) continue;
    pieces.push_back(message.slice(at, cuts[next] - at));
    pieces.push_back(reply.tensors[i].data);
    at = cuts[next++];
  }
  if (at < message.size() || pieces.empty()) pieces.push_back(message.slice(at, message.size() - at));
  return pieces;
}

}  // namespace

std::vector<base::Bytes> write_infer(const InferReply& reply, Envelope envelope) {
  std::string parameters, out = base::SpareText::take();
  for (const auto& [name, value] : reply.parameters) put_parameter(parameters, name, value);
  out.resize(most_size(reply, parameters));
  Text text(out.data() + kEnvelope);
  put_head(text, reply, parameters);
  size_t whole = size_t(text.end() - out.data()) - kEnvelope;
  for (size_t i = 0; i < reply.tensors.size(); ++i) whole += 1 + varint_size(size_in(reply, i)) + size_in(reply, i);

  std::vector<size_t> cuts;  // where in `out` a large tensor belongs
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    const size_t size = size_in(reply, i);
    text.tag(6, PbType::kBytes);
    text.varint(size);
    if (size <= kInline)
      text.raw(reply.tensors[i].data.view().substr(0, size));
    else
      cuts.push_back(size_t(text.end() - out.data()));
  }
  out.resize(size_t(text.end() - out.data()));
  size_t at = kEnvelope;
  if (envelope == Envelope::kStream) {
    std::string prefix;
    put_tag(prefix, 2, PbType::kBytes);
    put_varint(prefix, whole);
    at -= prefix.size();
    out.replace(at, prefix.size(), prefix);
  }
  return cut(base::Bytes::adopt(std::move(out)), at, cuts, reply);
}

base::Bytes write_stream_error(std::string_view model, std::string_view version, std::string_view id,
                               const msg::Parameters& parameters, std::string_view error) {
  std::string inner, out;
  put_text(inner, 1, model);
  put_text(inner, 2, version);
  put_text(inner, 3, id);
  for (const auto& [name, value] : parameters) put_parameter(inner, name, value);
  put_text(out, 1, error.empty() ? "unknown error" : error);
  put_bytes(out, 2, inner);
  return base::Bytes::adopt(std::move(out));
}

}  // namespace weir::oip
