#include "engines/forward/oip/message.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <variant>

#include "base/recycled.h"
#include "marshal/pb_wire.h"
#include "wire/grpc_frames.h"

namespace weir::forward {
namespace {

using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_text;
using marshal::put_varint;

constexpr size_t kInline = 4096;  // smaller tensors are cheaper to copy than to point at

void put_choice(std::string& out, const msg::ParamValue& value) {
  if (auto* text = std::get_if<std::string>(&value)) return put_bytes(out, 3, *text);
  if (auto* real = std::get_if<double>(&value)) {
    put_tag(out, 4, PbType::kFixed64);
    out.append(reinterpret_cast<const char*>(real), sizeof *real);
    return;
  }
  auto whole = [&](uint32_t field, uint64_t number) {
    put_tag(out, field, PbType::kVarint);
    put_varint(out, number);
  };
  if (auto* b = std::get_if<bool>(&value)) return whole(1, *b ? 1 : 0);
  if (auto* i = std::get_if<int64_t>(&value)) return whole(2, uint64_t(*i));
  whole(5, std::get<uint64_t>(value));
}

void put_parameter(std::string& out, std::string_view name, const msg::ParamValue& value) {
  std::string choice, entry;
  put_choice(choice, value);
  put_bytes(entry, 1, name);
  put_bytes(entry, 2, choice);
  put_bytes(out, 4, entry);
}

constexpr size_t kLongestVarint = 10;

// Writes fields where there is room for them: no string grows on the way.
class FieldWriter {
 public:
  explicit FieldWriter(char* at) : at_(at) {}

  char* at() const { return at_; }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at_++ = char(uint8_t(value) | 0x80);
    *at_++ = char(value);
  }
  void tag(uint32_t field) { varint(field << 3 | uint32_t(PbType::kBytes)); }
  void raw(std::string_view bytes) { at_ = std::copy(bytes.begin(), bytes.end(), at_); }
  void bytes(uint32_t field, std::string_view value) {
    tag(field);
    varint(value.size());
    raw(value);
  }
  // proto3 leaves empty strings out.
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) bytes(field, value);
  }
  static size_t room(std::string_view value) { return 2 * kLongestVarint + value.size(); }

 private:
  char* at_;
};

size_t size_of_varint(uint64_t value) { return (size_t(std::bit_width(value | 1)) + 6) / 7; }
// A field below 16, which is left out where it is empty.
size_t size_of_bytes(size_t size) { return size == 0 ? 0 : 1 + size_of_varint(size) + size; }

void write_input(FieldWriter& to, const msg::Tensor& tensor) {
  const std::string_view type = msg::name(tensor.dtype);
  size_t dims = 0;
  for (int64_t d : tensor.shape.dims()) dims += size_of_varint(uint64_t(d));
  to.tag(5);
  to.varint(size_of_bytes(tensor.name.size()) + size_of_bytes(type.size()) + size_of_bytes(dims));
  to.text(1, tensor.name);
  to.text(2, type);
  if (dims == 0) return;
  to.tag(3);
  to.varint(dims);
  for (int64_t d : tensor.shape.dims()) to.varint(uint64_t(d));
}

// Beyond what `parameters` take, which are fields already.
size_t room_of_head(const msg::Call& call, std::string_view model, std::string_view version) {
  size_t room = FieldWriter::room(model) + FieldWriter::room(version) + FieldWriter::room(call.id);
  for (const auto& tensor : call.inputs)
    room += FieldWriter::room(tensor.name) + FieldWriter::room(msg::name(tensor.dtype)) +
            kLongestVarint * (4 + tensor.shape.dims().size());
  for (const auto& name : call.outputs) room += 2 * kLongestVarint + FieldWriter::room(name);
  return room;
}

void write_head(FieldWriter& to, const msg::Call& call, std::string_view model, std::string_view version,
                std::string_view parameters) {
  to.text(1, model);
  to.text(2, version);
  to.text(3, call.id);
  to.raw(parameters);
  for (const auto& tensor : call.inputs) write_input(to, tensor);
  for (const auto& name : call.outputs) {
    to.tag(6);
    to.varint(size_of_bytes(name.size()));
    to.text(1, name);
  }
}

std::string parameters_of(const msg::Call& call, Ending ending, std::string_view mark) {
  std::string out;
  for (const auto& [name, value] : call.parameters) put_parameter(out, name, value);
  if (ending == Ending::kTold) put_parameter(out, "triton_enable_empty_final_response", true);
  if (!mark.empty()) put_parameter(out, mark, true);
  return out;
}

void put_prefix(std::string& text, size_t length) {
  const auto prefix = wire::grpc_prefix(wire::GrpcFlag::kPlain, uint32_t(length));
  text.replace(0, prefix.size(), reinterpret_cast<const char*>(prefix.data()), prefix.size());
}

}  // namespace

std::vector<base::Bytes> write_request(const msg::Call& call, std::string_view model, std::string_view version,
                                       Ending ending, std::string_view mark) {
  const std::string parameters = parameters_of(call, ending, mark);
  size_t room = wire::kGrpcPrefix + parameters.size() + room_of_head(call, model, version);
  for (const auto& tensor : call.inputs)
    room += 2 * kLongestVarint + (tensor.data.size() <= kInline ? tensor.data.size() : 0);
  std::string text = base::SpareText::take();
  text.resize(room);
  FieldWriter to(text.data() + wire::kGrpcPrefix);
  write_head(to, call, model, version, parameters);
  size_t length = 0;         // of large tensors
  std::vector<size_t> cuts;  // where in `text` one belongs
  for (const auto& tensor : call.inputs) {
    to.tag(7);
    to.varint(tensor.data.size());
    if (tensor.data.size() <= kInline)
      to.raw(tensor.data.view());
    else
      cuts.push_back(size_t(to.at() - text.data())), length += tensor.data.size();
  }
  text.resize(size_t(to.at() - text.data()));
  length += text.size() - wire::kGrpcPrefix;
  put_prefix(text, length);
  base::Bytes whole = base::Bytes::adopt(std::move(text));
  auto pieces = base::SpareVector<base::Bytes>::take();
  size_t at = 0, next = 0;
  for (const auto& tensor : call.inputs) {
    if (tensor.data.size() <= kInline) continue;
    pieces.insert(pieces.end(), {whole.slice(at, cuts[next] - at), tensor.data});
    at = cuts[next++];
  }
  if (cuts.empty())
    pieces.push_back(std::move(whole));
  else if (at < whole.size())
    pieces.push_back(whole.slice(at, whole.size() - at));
  return pieces;
}

base::Bytes write_name(std::string_view model, std::string_view version) {
  std::string text(wire::kGrpcPrefix, '\0');
  put_text(text, 1, model);
  put_text(text, 2, version);
  put_prefix(text, text.size() - wire::kGrpcPrefix);
  return base::Bytes::adopt(std::move(text));
}

}  // namespace weir::forward
