// read_pb() of message.h.
//
//   GrpsMessage: 1 status  2 model  3 bin_data  4 str_data  5 gtensors{1 tensors}  6 ndarray{}  7 gmap
//   GenericTensor: 1 name  2 dtype  3 shape (packed or not)  4 … 12 the elements, by type
//   GenericMapData: 1 s_s  2 s_b  3 s_i32  4 s_i64  5 s_f  6 s_d, each of entries {1 key, 2 value}
#include <optional>

#include "base/memory_ledger.h"
#include "dialects/grps/message.h"
#include "dialects/grps/types.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_tensor.h"

namespace weir::grps {
namespace {

using base::invalid;
using base::Status;
using marshal::PbCountedReader;
using marshal::PbReader;
using marshal::PbType;
using msg::DType;

constexpr size_t kMaxUnknown = 64 << 10;

Status malformed(std::string_view what) { return invalid("malformed protobuf in " + std::string(what)); }

class PbMessageReader {
 public:
  PbMessageReader(const base::Bytes& bytes, base::SlabSource& slabs, Message& message)
      : bytes_(bytes), slabs_(slabs), message_(message) {}

  Status read() {
    Status status = read_fields();
    return fields_.exceeded() ? invalid("more than 65536 fields in GrpsMessage") : status;
  }

 private:
  Status read_fields() {
    PbCountedReader r(bytes_.view(), fields_);
    while (r.next())
      if (Status status = field(r); !status.ok()) return status;
    return r.ok() ? Status{} : malformed("GrpsMessage");
  }
  Status field(const PbReader& r) {
    if (r.type() != PbType::kBytes) return unknown(r);
    switch (r.field()) {
      case 1: return {};  // status: of answers
      case 2: return text(r.bytes(), "model", message_.model);
      case 3: return begin(Kind::kBin), message_.data = bytes_.slice(r.bytes()), Status{};
      case 4:
        if (!marshal::valid_utf8(r.bytes())) return invalid("str_data is not UTF-8");
        return begin(Kind::kStr), message_.data = bytes_.slice(r.bytes()), Status{};
      case 5: return begin(Kind::kTensors), tensors(r.bytes());
      case 6: return invalid("ndarray is for HTTP's JSON: use gtensors");
      case 7: return begin(Kind::kMap), maps(r.bytes());
      default: return unknown(r);
    }
  }

  // The last member of a oneof counts; parts of the same one add up.
  void begin(Kind kind) {
    if (message_.kind != kind) message_.tensors.clear(), message_.maps.clear(), message_.data = {};
    message_.kind = kind;
  }

  Status unknown(const PbReader& r) {
    unknown_ += r.encoded_size();
    if (unknown_ > kMaxUnknown) return invalid("more than 64 KiB of unknown fields in GrpsMessage");
    return {};
  }

  static Status text(std::string_view bytes, std::string_view what, std::string& out) {
    if (!marshal::valid_utf8(bytes)) return invalid(std::string(what) + " is not UTF-8");
    out.assign(bytes);
    return {};
  }

  Status tensors(std::string_view bytes) {
    PbCountedReader r(bytes, fields_);
    while (r.next())
      if (Status status = r.is(1, PbType::kBytes) ? tensor(r.bytes()) : unknown(r); !status.ok()) return status;
    return r.ok() ? Status{} : malformed("gtensors");
  }

  // In two passes: what it is, then the elements, which may come first.
  Status tensor(std::string_view bytes) {
    if (message_.tensors.size() == kMaxTensors) return invalid("more than 256 tensors");
    msg::Tensor& tensor = message_.tensors.emplace_back();
    uint64_t type = 0;
    uint32_t stray = 0, elements = 0;
    Status status;
    PbReader r(bytes);
    while (status.ok() && r.next()) {
      const bool element = r.field() >= field_of(1) && r.field() < field_of(kTypes.size());
      if (element)
        (elements == 0 || elements == r.field() ? elements : stray) = r.field();
      else if (!fields_.take())
        status = malformed("a tensor");
      else if (r.is(1, PbType::kBytes))
        status = text(r.bytes(), "a tensor's name", tensor.name);
      else if (r.is(2, PbType::kVarint))
        type = r.number();
      else if (r.field() == 3 && (r.type() == PbType::kVarint || r.type() == PbType::kBytes))
        status = shape(r, tensor);
      else
        status = unknown(r);
    }
    if (!status.ok()) return status;
    std::string where = "input '" + tensor.name + "': ";
    if (!r.ok()) return malformed("a tensor");
    if (type == 0 || type >= kTypes.size()) return invalid(where + "dtype is 1 to 9");
    tensor.dtype = kTypes[type].dtype;
    uint32_t wanted = field_of(type);
    if (elements == 0) return tensor.shape.elements() == 0u ? Status{} : invalid(where + "no elements");
    if (elements != wanted || stray)
      return invalid(where + std::string(kTypes[type].name) + " data belongs in " + std::string(kTypes[type].field) +
                     ", not " + std::string(kTypes[(elements != wanted ? elements : stray) - field_of(0)].field));
    return marshal::read_cells(bytes_, bytes, wanted, slabs_, tensor);
  }

  static Status shape(const PbReader& r, msg::Tensor& tensor) {
    std::string_view packed = r.bytes();
    uint64_t dim = r.number();
    bool ok = true;
    if (r.type() == PbType::kVarint) {
      ok = tensor.shape.push(uint32_t(dim));
    } else {
      while (ok && !packed.empty()) {
        if (!marshal::take_varint(packed, dim)) return malformed("a shape");
        ok = tensor.shape.push(uint32_t(dim));
      }
    }
    return ok ? Status{} : invalid("input '" + tensor.name + "': a shape has at most 16 dimensions");
  }

  Status maps(std::string_view bytes) {
    PbCountedReader r(bytes, fields_);
    while (r.next()) {
      bool known = r.type() == PbType::kBytes && r.field() >= 1 && r.field() <= kMaps.size();
      if (Status status = known ? entry(r.bytes(), Map(r.field() - 1)) : unknown(r); !status.ok()) return status;
    }
    return r.ok() ? Status{} : malformed("gmap");
  }

  Status entry(std::string_view bytes, Map map) {
    if (message_.tensors.size() == kMaxTensors) return invalid("more than 256 map entries");
    msg::Tensor& t = message_.tensors.emplace_back();
    message_.maps.push_back(map);
    t.dtype = type_of(map).dtype;
    PbType wanted = marshal::cell_type(t.dtype);
    std::string_view text_value;
    uint64_t number = 0;
    PbCountedReader r(bytes, fields_);
    while (r.next()) {
      Status status;
      if (r.is(1, PbType::kBytes))
        status = text(r.bytes(), "a map's key", t.name);
      else if (r.is(2, wanted))
        number = r.number(), text_value = r.bytes();
      else
        status = unknown(r);
      if (!status.ok()) return status;
    }
    if (!r.ok()) return malformed("a map entry");
    std::string data;
    if (t.dtype == DType::kBytes) {
      if (map == Map::kText && !marshal::valid_utf8(text_value)) return invalid("'" + t.name + "' of s_s is not UTF-8");
      msg::append_string(data, text_value);
    } else {
      data.assign(reinterpret_cast<const char*>(&number), msg::size_of(t.dtype));
    }
    t.data = base::Bytes::adopt(std::move(data));
    if (t.data.size() >= base::kLeastCharged && !base::charge(slabs_.ledger(), base::MemoryKind::kDecoding, t.data))
      return base::overloaded("there is no memory for '" + t.name + "'; try again later");
    return {};
  }

  const base::Bytes& bytes_;
  base::SlabSource& slabs_;
  Message& message_;
  size_t unknown_ = 0;
  marshal::PbFields fields_;  // without the elements of tensors
};

}  // namespace

constexpr size_t kLong = size_t(1) << 20;  // bytes of elements: 2 to 10 ms

bool takes_long(std::string_view bytes) {
  if (bytes.size() <= kLong) return false;
  size_t elements = 0;
  marshal::PbFields fields;
  PbCountedReader message(bytes, fields);
  while (message.next()) {
    if (!message.is(5, PbType::kBytes)) continue;
    PbCountedReader tensors(message.bytes(), fields);
    while (tensors.next()) {
      PbCountedReader tensor(tensors.bytes(), fields);
      while (tensor.next()) {
        const bool stays = tensor.type() == PbType::kBytes && (tensor.field() == field_of(type_of(DType::kFp32)) ||
                                                               tensor.field() == field_of(type_of(DType::kFp64)));
        if (!stays && tensor.field() >= field_of(1) && tensor.field() < field_of(kTypes.size()))
          elements += tensor.encoded_size();
      }
    }
  }
  return elements > kLong || fields.exceeded();
}

Status read_pb(const base::Bytes& bytes, base::SlabSource& slabs, Message& message) {
  return PbMessageReader(bytes, slabs, message).read();
}

}  // namespace weir::grps
