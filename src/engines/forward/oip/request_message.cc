#include "engines/forward/oip/message.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/recycled.h"
#include "marshal/pb_infer_fields.h"
#include "wire/grpc_frames.h"

namespace weir::forward {
namespace {

using marshal::kInlineTensor;
using marshal::PbType;
using marshal::PbWriter;
using marshal::put_parameter;
using marshal::put_text;
using marshal::varint_size;

constexpr size_t kLongestVarint = 10;

size_t room_of(std::string_view value) { return 2 * kLongestVarint + value.size(); }

// Beyond what `parameters` take, which are fields already.
size_t room_of_head(const msg::Call& call, std::string_view model, std::string_view version) {
  size_t room = room_of(model) + room_of(version) + room_of(call.id);
  for (const auto& tensor : call.inputs)
    room += room_of(tensor.name) + room_of(msg::name(tensor.dtype)) + kLongestVarint * (4 + tensor.shape.dims().size());
  for (const auto& name : call.outputs) room += 2 * kLongestVarint + room_of(name);
  return room;
}

void write_head(PbWriter& to, const msg::Call& call, std::string_view model, std::string_view version,
                std::string_view parameters) {
  to.text(1, model);
  to.text(2, version);
  to.text(3, call.id);
  to.raw(parameters);
  for (const auto& tensor : call.inputs) marshal::write_tensor_head(to, tensor);
  for (const auto& name : call.outputs) {
    to.tag(6, PbType::kBytes);
    to.varint(name.empty() ? 0 : 1 + varint_size(name.size()) + name.size());
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
  std::memcpy(text.data(), prefix.data(), prefix.size());
}

}  // namespace

std::vector<base::Bytes> write_request(const msg::Call& call, std::string_view model, std::string_view version,
                                       Ending ending, std::string_view mark) {
  const std::string parameters = parameters_of(call, ending, mark);
  size_t room = wire::kGrpcPrefix + parameters.size() + room_of_head(call, model, version);
  for (const auto& tensor : call.inputs)
    room += 2 * kLongestVarint + (tensor.data.size() <= kInlineTensor ? tensor.data.size() : 0);
  std::string text = base::SpareText::take();
  text.resize(room);
  PbWriter to(text.data() + wire::kGrpcPrefix);
  write_head(to, call, model, version, parameters);
  size_t length = 0;         // of large tensors
  std::vector<size_t> cuts;  // where in `text` one belongs
  for (const auto& tensor : call.inputs) {
    to.tag(7, PbType::kBytes);
    to.varint(tensor.data.size());
    if (tensor.data.size() <= kInlineTensor)
      to.raw(tensor.data.view());
    else
      cuts.push_back(size_t(to.end() - text.data())), length += tensor.data.size();
  }
  text.resize(size_t(to.end() - text.data()));
  length += text.size() - wire::kGrpcPrefix;
  put_prefix(text, length);
  base::Bytes whole = base::Bytes::adopt(std::move(text));
  auto pieces = base::SpareVector<base::Bytes>::take();
  size_t at = 0, next = 0;
  for (const auto& tensor : call.inputs) {
    if (tensor.data.size() <= kInlineTensor) continue;
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
