// write_pb() of message.h.
#include "base/encoding.h"
#include "dialects/grps/message.h"
#include "dialects/grps/types.h"
#include "marshal/json_tensor.h"
#include "marshal/pb_tensor.h"

namespace weir::grps {
namespace {

using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_text;
using marshal::put_varint;
using marshal::varint_size;
using msg::DType;

constexpr size_t kInline = 4096;  // data up to this size is copied: cheaper than a piece of its own

// Text, and slices of tensors between it.
class Pieces {
 public:
  std::string text;
  void add(const base::Bytes& bytes) {
    if (bytes.size() <= kInline) {
      text += bytes.view();
      return;
    }
    flush();
    pieces_.push_back(bytes);
  }
  std::vector<base::Bytes> take() {
    flush();
    return std::move(pieces_);
  }

 private:
  void flush() {
    if (!text.empty()) pieces_.push_back(base::Bytes::adopt(std::exchange(text, {})));
  }
  std::vector<base::Bytes> pieces_;
};

// An engine's text need not be UTF-8, but clients drop a message with a string that is not.
std::string text_of(const base::Status& status) {
  if (status.ok()) return "OK";
  if (status.text.empty()) return std::string(base::name(status.code));
  return marshal::valid_utf8(status.text) ? status.text : base::presentable(status.text, status.text.size());
}

void put_status(std::string& out, const base::Status& status) {
  std::string inner;
  put_tag(inner, 1, PbType::kVarint);
  put_varint(inner, uint64_t(code_of(status)));
  put_text(inner, 2, text_of(status));
  put_tag(inner, 3, PbType::kVarint);
  put_varint(inner, status.ok() ? 1 : 2);
  put_bytes(out, 1, inner);
}

// A tensor up to its elements, which follow as `tail` where they go out as they are.
struct Part {
  std::string head;
  const base::Bytes* tail = nullptr;
  size_t size() const { return head.size() + (tail ? tail->size() : 0); }
};

Part part_of(const msg::Tensor& t) {
  Part part;
  size_t type = type_of(t.dtype);
  put_text(part.head, 1, t.name);
  put_tag(part.head, 2, PbType::kVarint);
  put_varint(part.head, type);
  if (t.shape.rank() > 0) {
    std::string dims;
    for (int64_t dim : t.shape.dims()) put_varint(dims, uint64_t(dim));
    put_bytes(part.head, 3, dims);
  }
  bool as_is = t.dtype == DType::kFp32 || t.dtype == DType::kFp64;
  if (!as_is || t.data.empty()) {
    marshal::put_cells(part.head, field_of(type), t);
    return part;
  }
  put_tag(part.head, field_of(type), PbType::kBytes);
  put_varint(part.head, t.data.size());
  part.tail = &t.data;
  return part;
}

void put_tensors(Pieces& out, const Message& message) {
  std::vector<Part> parts;
  parts.reserve(message.tensors.size());
  size_t whole = 0;
  for (const auto& t : message.tensors) {
    size_t size = parts.emplace_back(part_of(t)).size();
    whole += 1 + varint_size(size) + size;
  }
  put_tag(out.text, 5, PbType::kBytes);
  put_varint(out.text, whole);
  for (const Part& part : parts) {
    put_tag(out.text, 1, PbType::kBytes);
    put_varint(out.text, part.size());
    out.text += part.head;
    if (part.tail) out.add(*part.tail);
  }
}

void put_value(std::string& entry, const msg::Tensor& t) {
  if (t.dtype == DType::kBytes) return marshal::put_cells(entry, 2, t);
  PbType type = marshal::cell_type(t.dtype);
  put_tag(entry, 2, type);
  if (type != PbType::kVarint) {
    entry += t.data.view();
    return;
  }
  int64_t value = 0;
  int32_t narrow = 0;
  std::memcpy(t.data.size() == 8 ? static_cast<void*>(&value) : &narrow, t.data.data(), t.data.size());
  put_varint(entry, uint64_t(t.data.size() == 8 ? value : narrow));
}

void put_maps(std::string& out, const Message& message) {
  std::string maps;
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    std::string entry;
    put_text(entry, 1, message.tensors[i].name);
    put_value(entry, message.tensors[i]);
    put_bytes(maps, field_of(message.maps[i]), entry);
  }
  put_bytes(out, 7, maps);
}

void put_data(Pieces& out, uint32_t field, const base::Bytes& data) {
  put_tag(out.text, field, PbType::kBytes);
  put_varint(out.text, data.size());
  out.add(data);
}

// Bytes at most for each byte of a tensor.
uint64_t most_per_byte(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
    case DType::kFp64: return 0;  // as they are
    case DType::kInt8: return 10;
    case DType::kInt16: return 5;
    case DType::kInt32: return 3;
    default: return 2;
  }
}

}  // namespace

uint64_t most_converted(const Message& message) {
  uint64_t most = 0;
  for (const auto& t : message.tensors) most += most_per_byte(t.dtype) * t.data.size();
  return most;
}

std::vector<base::Bytes> write_pb(const base::Status& status, const Message& message) {
  Pieces out;
  put_status(out.text, status);
  put_text(out.text, 2, message.model);
  switch (message.kind) {
    case Kind::kNone: break;
    case Kind::kBin: put_data(out, 3, message.data); break;
    case Kind::kStr: put_data(out, 4, message.data); break;
    case Kind::kArray:
    case Kind::kTensors: put_tensors(out, message); break;
    case Kind::kMap: put_maps(out.text, message); break;
  }
  return out.take();
}

}  // namespace weir::grps
