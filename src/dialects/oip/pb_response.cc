// The writing half of pb_infer.h.
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

size_t dims_size(const msg::Shape& shape) {
  size_t n = 0;
  for (int64_t d : shape.dims()) n += varint_size(uint64_t(d));
  return n;
}

void put_output(std::string& out, const msg::Tensor& tensor) {
  std::string_view dtype = msg::name(tensor.dtype);
  size_t dims = dims_size(tensor.shape);
  size_t size = tensor.name.empty() ? 0 : 1 + varint_size(tensor.name.size()) + tensor.name.size();
  size += 2 + dtype.size();
  if (dims) size += 1 + varint_size(dims) + dims;
  put_tag(out, 5, PbType::kBytes);
  put_varint(out, size);
  put_text(out, 1, tensor.name);
  put_text(out, 2, dtype);
  if (!dims) return;
  put_tag(out, 3, PbType::kBytes);
  put_varint(out, dims);
  for (int64_t d : tensor.shape.dims()) put_varint(out, uint64_t(d));
}

void put_head(std::string& out, const InferReply& reply) {
  put_text(out, 1, reply.model);
  put_text(out, 2, reply.version);
  put_text(out, 3, reply.id);
  for (const auto& [name, value] : reply.parameters) put_parameter(out, name, value);
  for (const auto& tensor : reply.tensors) put_output(out, tensor);
}

// A tensor in shared memory has no bytes in the message, but its place among the others.
size_t size_in(const InferReply& reply, size_t tensor) {
  return reply.shared(tensor) ? 0 : reply.tensors[tensor].data.size();
}

size_t expected_size(const InferReply& reply) {
  size_t n =
      kEnvelope + 64 + reply.model.size() + reply.version.size() + reply.id.size() + 32 * reply.parameters.size();
  for (const auto& t : reply.tensors) n += 48 + t.name.size() + (t.data.size() <= kInline ? t.data.size() : 0);
  return n;
}

}  // namespace

std::vector<base::Bytes> write_infer(const InferReply& reply, Envelope envelope) {
  std::string out;
  out.reserve(expected_size(reply));
  out.append(kEnvelope, '\0');
  put_head(out, reply);
  size_t whole = out.size() - kEnvelope;
  for (size_t i = 0; i < reply.tensors.size(); ++i) whole += 1 + varint_size(size_in(reply, i)) + size_in(reply, i);

  std::vector<size_t> cuts;  // where in `out` a large tensor belongs
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    const size_t size = size_in(reply, i);
    put_tag(out, 6, PbType::kBytes);
    put_varint(out, size);
    if (size <= kInline)
      out += reply.tensors[i].data.view().substr(0, size);
    else
      cuts.push_back(out.size());
  }
  size_t at = kEnvelope;
  if (envelope == Envelope::kStream) {
    std::string prefix;
    put_tag(prefix, 2, PbType::kBytes);
    put_varint(prefix, whole);
    at -= prefix.size();
    out.replace(at, prefix.size(), prefix);
  }
  size_t end = out.size();
  base::Bytes text = base::Bytes::adopt(std::move(out));
  std::vector<base::Bytes> pieces;
  pieces.reserve(2 * cuts.size() + 1);
  size_t next = 0;
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    if (size_in(reply, i) <= kInline) continue;
    pieces.push_back(text.slice(at, cuts[next] - at));
    pieces.push_back(reply.tensors[i].data);
    at = cuts[next++];
  }
  if (at < end || pieces.empty()) pieces.push_back(text.slice(at, end - at));
  return pieces;
}

base::Bytes write_stream_error(std::string_view model, std::string_view version, std::string_view id,
                               std::string_view error) {
  std::string inner, out;
  put_text(inner, 1, model);
  put_text(inner, 2, version);
  put_text(inner, 3, id);
  put_text(out, 1, error.empty() ? "unknown error" : error);
  put_bytes(out, 2, inner);
  return base::Bytes::adopt(std::move(out));
}

}  // namespace weir::oip
