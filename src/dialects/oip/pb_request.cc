// The reading half of pb_infer.h.
#include <bit>
#include <optional>
#include <utility>

#include "dialects/oip/long_work.h"
#include "dialects/oip/pb_infer.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;
using marshal::PbCountedReader;
using marshal::PbReader;
using marshal::PbType;

constexpr size_t kMaxUnknown = 64 << 10;

Status malformed(std::string_view what) { return invalid("malformed protobuf in " + std::string(what)); }

// One reading of one request.
class PbRequestReader {
 public:
  PbRequestReader(const base::Bytes& message, base::SlabSource& slabs, msg::Call& call, InferOptions& options)
      : message_(message), slabs_(slabs), call_(call), options_(options) {}

  // kHead: the fields in front of the inputs, wherever they stand.
  enum class Part : uint8_t { kHead, kAll };
  Status read(Part part) {
    const bool read = read_fields(part);
    if (fields_.exceeded()) return invalid("more than 65536 fields in ModelInferRequest");
    if (!read) return std::move(error_);
    return {};
  }

 private:
  // All that follows: false: it is wrong, and `error_` says how. A Status handed on through them would be moved often.
  [[gnu::cold]] bool fail(Status why) {
    error_ = std::move(why);
    return false;
  }
  bool take(Status outcome) { return outcome.ok() || fail(std::move(outcome)); }

  bool read_fields(Part part) {
    PbCountedReader r(message_.view(), fields_);
    while (r.next()) {
      if (part == Part::kHead && (r.type() != PbType::kBytes || r.field() > 4)) continue;
      if (!field(r)) return false;
    }
    if (!r.ok()) return fail(malformed("ModelInferRequest"));
    return place_raw();
  }
  bool field(const PbReader& r) {
    if (r.type() != PbType::kBytes) return unknown(r);
    switch (r.field()) {
      case 1: return text(r.bytes(), "model_name", call_.model);
      case 2: return text(r.bytes(), "model_version", call_.version);
      case 3: return text(r.bytes(), "id", call_.id);
      case 4:
        return parameter(r.bytes(), [&](std::string_view name, msg::ParamValue value) {
          return take(apply(call_, options_, name, std::move(value)));
        });
      case 5: return input(r.bytes());
      case 6: return output(r.bytes());
      case 7: return raw(r.bytes());
      default: return unknown(r);
    }
  }

  bool unknown(const PbReader& r) {
    unknown_ += r.encoded_size();
    return unknown_ <= kMaxUnknown || fail(invalid("more than 64 KiB of unknown fields in ModelInferRequest"));
  }

  bool text(std::string_view bytes, std::string_view what) {
    return marshal::valid_utf8(bytes) || fail(invalid(std::string(what) + " is not UTF-8"));
  }
  bool named(std::string_view bytes, std::string_view what) {
    return text(bytes, what) && take(check_name(bytes, what));
  }
  bool text(std::string_view bytes, std::string_view what, std::string& out) {
    out.assign(bytes);
    return text(bytes, what);
  }

  // One entry of a map<string, InferParameter>.
  template <class Apply>
  bool parameter(std::string_view entry, Apply&& apply_one) {
    if (++parameters_ > kMaxParameters * 4) return fail(invalid("too many parameters in ModelInferRequest"));
    std::string_view key;
    std::optional<msg::ParamValue> value;
    PbCountedReader r(entry, fields_);
    bool good = true;
    while (good && r.next()) {
      if (r.is(1, PbType::kBytes))
        good = named(key = r.bytes(), "a parameter's name");
      else if (r.is(2, PbType::kBytes))
        good = choice(r.bytes(), value);
      else
        good = unknown(r);
    }
    if (!good) return false;
    if (!r.ok()) return fail(malformed("a parameter"));
    return !value || apply_one(key, *std::move(value));
  }

  // InferParameter: of a oneof the last one counts.
  bool choice(std::string_view bytes, std::optional<msg::ParamValue>& value) {
    PbCountedReader r(bytes, fields_);
    while (r.next()) {
      bool varint = r.type() == PbType::kVarint;
      if (r.field() == 1 && varint)
        value = r.number() != 0;
      else if (r.field() == 2 && varint)
        value = int64_t(r.number());
      else if (r.is(3, PbType::kBytes) && !marshal::valid_utf8(r.bytes()))
        return fail(invalid("a parameter's value is not UTF-8"));
      else if (r.is(3, PbType::kBytes))
        value = std::string(r.bytes());
      else if (r.is(4, PbType::kFixed64))
        value = std::bit_cast<double>(r.number());
      else if (r.field() == 5 && varint)
        value = r.number();
      else if (!unknown(r))
        return false;
    }
    return r.ok() || fail(malformed("a parameter"));
  }

  bool input(std::string_view bytes) {
    if (call_.inputs.size() == kMaxInputs) return fail(invalid("more than 256 inputs"));
    msg::Tensor& tensor = call_.inputs.emplace_back();
    std::string_view contents, datatype;
    bool has_contents = false, good = true;
    PbCountedReader r(bytes, fields_);
    while (good && r.next()) {
      if (r.is(1, PbType::kBytes))
        good = named(tensor.name = r.bytes(), "an input's name");
      else if (r.is(2, PbType::kBytes))
        good = named(datatype = r.bytes(), "a datatype");
      else if (r.field() == 3 && (r.type() == PbType::kVarint || r.type() == PbType::kBytes))
        good = shape(r, tensor);
      else if (r.is(4, PbType::kBytes))
        good = parameter(r.bytes(), [&](std::string_view name, msg::ParamValue value) {
          return take(apply_input(call_, options_, name, std::move(value)));
        });
      else if (r.is(5, PbType::kBytes) && std::exchange(has_contents, true))
        good = fail(invalid("input '" + tensor.name + "' has contents twice"));
      else if (r.is(5, PbType::kBytes))
        contents = r.bytes();
      else
        good = unknown(r);
    }
    if (!good) return false;
    if (!r.ok()) return fail(malformed("an input"));
    return place_input(tensor, datatype, contents);
  }

  bool place_input(msg::Tensor& tensor, std::string_view datatype, std::string_view contents) {
    tensor.dtype = msg::dtype_from_name(datatype);
    if (tensor.dtype == msg::DType::kInvalid)
      return fail(invalid("input '" + tensor.name + "': " + unknown_datatype(datatype)));
    if (contents.empty()) return true;
    if (options_.is_shared(call_.inputs.size() - 1))
      return fail(
          invalid("unexpected 'content' provided when using shared memory for input tensor '" + tensor.name + "'"));
    typed_ = tensor.name.empty() ? "?" : tensor.name;
    return take(read_contents(message_, contents, slabs_, tensor));
  }

  bool shape(const PbReader& r, msg::Tensor& tensor) {
    std::string_view packed = r.bytes();
    uint64_t dim = r.number();
    bool ok = true;
    if (r.type() == PbType::kVarint) {
      ok = tensor.shape.push(int64_t(dim));
    } else {
      while (ok && !packed.empty()) {
        if (!marshal::take_varint(packed, dim)) return fail(malformed("a shape"));
        ok = tensor.shape.push(int64_t(dim));
      }
    }
    return ok || fail(invalid("input '" + tensor.name + "': a shape has at most 16 dimensions"));
  }

  bool output(std::string_view bytes) {
    if (call_.outputs.size() == kMaxOutputs) return fail(invalid("more than 256 requested outputs"));
    std::string& name = call_.outputs.emplace_back();
    OutputOptions& asked = options_.outputs.emplace_back();
    bool good = true;
    PbCountedReader r(bytes, fields_);
    while (good && r.next()) {
      if (r.is(1, PbType::kBytes))
        good = named(name = r.bytes(), "an output's name");
      else if (r.is(2, PbType::kBytes))
        good = parameter(r.bytes(), [&](std::string_view key, const msg::ParamValue& value) {
          return take(apply(name, asked, key, value));
        });
      else
        good = unknown(r);
    }
    return good && take(r.ok() ? check_output(name, asked) : malformed("a requested output"));
  }

  // The next input that is not in shared memory; there may be none.
  size_t next_raw() {
    while (options_.is_shared(next_raw_)) ++next_raw_;
    return next_raw_++;
  }

  // The i-th raw content belongs to the i-th input that is not in shared memory, which nearly always has been read
  // before.
  bool raw(std::string_view bytes) {
    if (raw_count_ == kMaxInputs) return fail(invalid("more than 256 raw_input_contents"));
    if (size_t at = early_.empty() ? next_raw() : SIZE_MAX; at < call_.inputs.size())
      call_.inputs[at].data = message_.slice(bytes);
    else
      early_.push_back(bytes);
    ++raw_count_;
    return true;
  }

  bool place_raw() {
    if (raw_count_ == 0) return true;
    if (!typed_.empty())
      return fail(
          invalid("input '" + typed_ + "' has typed contents, but the request has raw_input_contents: use one form"));
    const size_t inputs = call_.inputs.size() - options_.shared.size();
    if (raw_count_ != inputs)
      return fail(
          invalid(std::to_string(raw_count_) + " raw_input_contents for " + std::to_string(inputs) + " inputs"));
    if (early_.empty()) return true;
    next_raw_ = 0;
    for (size_t i = early_.size(); i < raw_count_; ++i) (void)next_raw();  // those that have theirs
    for (std::string_view bytes : early_) call_.inputs[next_raw()].data = message_.slice(bytes);
    return true;
  }

  const base::Bytes& message_;
  base::SlabSource& slabs_;
  msg::Call& call_;
  InferOptions& options_;
  marshal::PbFields fields_;  // without the elements of typed contents
  size_t raw_count_ = 0, next_raw_ = 0, unknown_ = 0, parameters_ = 0;
  std::vector<std::string_view> early_;  // raw contents that came before their inputs
  std::string typed_;                    // an input with typed contents
  Status error_;
};

}  // namespace

Status read_infer(const base::Bytes& message, base::SlabSource& slabs, msg::Call& call, InferOptions& options) {
  return PbRequestReader(message, slabs, call, options).read(PbRequestReader::Part::kAll);
}

Status read_head(const base::Bytes& message, msg::Call& call, InferOptions& options) {
  return PbRequestReader(message, base::heap(), call, options).read(PbRequestReader::Part::kHead);
}

bool takes_long(std::string_view message) {
  if (message.size() <= kLongRequest) return false;
  size_t inputs = 0;
  marshal::PbFields fields;  // of more than are read nothing is long
  PbCountedReader r(message, fields);
  while (r.next())
    if (r.is(5, PbType::kBytes)) inputs += r.bytes().size();
  return inputs > kLongRequest;
}

}  // namespace weir::oip
