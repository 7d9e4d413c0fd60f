// The writing half of pb_infer.h.
#include "base/recycled.h"
#include "dialects/oip/pb_infer.h"
#include "marshal/pb_infer_fields.h"

namespace weir::oip {
namespace {

using marshal::kInlineTensor;
using marshal::PbType;
using marshal::put_bytes;
using marshal::put_parameter;
using marshal::put_tag;
using marshal::put_text;
using marshal::put_varint;
using marshal::varint_size;

constexpr size_t kEnvelope = 11;  // room for the tag and length of infer_response

void put_head(marshal::PbWriter& out, const InferReply& reply, std::string_view parameters) {
  out.text(1, reply.model);
  out.text(2, reply.version);
  out.text(3, reply.id);
  out.raw(parameters);
  for (const auto& tensor : reply.tensors) marshal::write_tensor_head(out, tensor);
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
    n += t.data.size() <= kInlineTensor ? t.data.size() : 0;
  }
  return n;
}

// The message from `at` on, with the large tensors where they belong in it: at `cuts`.
std::vector<base::Bytes> cut(base::Bytes message, size_t at, const std::vector<size_t>& cuts, const InferReply& reply) {
  auto pieces = base::SpareVector<base::Bytes>::take();
  if (at == 0 && cuts.empty()) {
    pieces.push_back(std::move(message));
    return pieces;
  }
  pieces.reserve(2 * cuts.size() + 1);
  size_t next = 0;
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    if (size_in(reply, i) <= kInlineTensor) continue;
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
  size_t at = envelope == Envelope::kStream ? kEnvelope : 0;
  marshal::PbWriter text(out.data() + at);
  put_head(text, reply, parameters);
  size_t whole = size_t(text.end() - out.data()) - at;
  for (size_t i = 0; i < reply.tensors.size(); ++i) whole += 1 + varint_size(size_in(reply, i)) + size_in(reply, i);

  std::vector<size_t> cuts;  // where in `out` a large tensor belongs
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    const size_t size = size_in(reply, i);
    text.tag(6, PbType::kBytes);
    text.varint(size);
    if (size <= kInlineTensor)
      text.raw(reply.tensors[i].data.view().substr(0, size));
    else
      cuts.push_back(size_t(text.end() - out.data()));
  }
  out.resize(size_t(text.end() - out.data()));
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
