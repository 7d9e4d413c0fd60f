// read_request() of turn_request.h. Fields and numbers: GenerateRequest in proto/salience.proto.
#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "dialects/salience/turn_request.h"
#include "marshal/generation_params.h"
#include "marshal/pb_wire.h"
#include "session/session_id.h"
#include "wire/text.h"

namespace weir::salience {
namespace {

using base::invalid;
using base::Status;
using marshal::PbCountedReader;
using marshal::PbFields;
using marshal::PbReader;
using marshal::PbType;

constexpr size_t kShown = 64;  // bytes of a client's text in an error

// The fields that are not in marshal/generation_params.h.
enum Field : uint32_t {
  kSessionId = 1,
  kAppendTokens = 2,
  kOffset = 3,
  kTruncating = 4,
  kLogprobsRanges = 6,
  kReadoutRanges = 8,
  kPriority = 13,
  kImages = 14,
};

Status malformed() { return invalid("the message cannot be decoded as a GenerateRequest"); }

Status out_of_range(const std::string& field, const std::string& value, const std::string& expected) {
  return invalid(field + " must be " + expected + ", not " + value);
}

Status read_uint32(const std::string& field, uint64_t value, uint32_t& out) {
  if (value > UINT32_MAX) return out_of_range(field, std::to_string(value), "<= 4294967295");
  out = uint32_t(value);
  return {};
}

Status too_many(const std::string& field, uint64_t limit) {
  return invalid(field + " must have at most " + std::to_string(limit) + " entries");
}

Status read_range(const char* name, std::string_view message, PbFields& fields, std::vector<msg::PositionRange>& out) {
  if (out.size() == kMaxRanges) return too_many(name, kMaxRanges);
  std::string path = std::string(name) + "[" + std::to_string(out.size()) + "]";
  msg::PositionRange& r = out.emplace_back();
  PbCountedReader reader(message, fields);
  while (reader.next()) {
    Status status;
    if (reader.is(1, PbType::kVarint)) status = read_uint32(path + ".start", reader.number(), r.start);
    if (reader.is(2, PbType::kVarint)) status = read_uint32(path + ".end", reader.number(), r.end);
    if (!status.ok()) return status;
  }
  if (!reader.ok()) return malformed();
  if (r.start <= r.end) return {};
  return invalid(path + " must have start <= end, not [" + std::to_string(r.start) + ", " + std::to_string(r.end) +
                 ")");
}

// "image/jpg" is not a registered type, but many clients send it. The decoder goes by the image's bytes, not by the
// type.
bool known_type(std::string_view mime) {
  mime = wire::trim(mime.substr(0, mime.find(';')));
  constexpr std::array<std::string_view, 4> kTypes{"image/png", "image/jpeg", "image/jpg", "image/webp"};
  return std::any_of(kTypes.begin(), kTypes.end(), [&](auto type) { return wire::same_text(mime, type); });
}

Status read_image(std::string_view message, const base::Bytes& whole, PbFields& fields, std::vector<msg::Image>& out) {
  if (out.size() == kMaxImages) return too_many("images", kMaxImages);
  std::string path = "images[" + std::to_string(out.size()) + "]";
  msg::Image& image = out.emplace_back();
  PbCountedReader reader(message, fields);
  while (reader.next()) {
    Status status;
    if (reader.is(1, PbType::kBytes)) image.data = whole.slice(reader.bytes());
    if (reader.is(2, PbType::kBytes)) image.mime = reader.bytes();
    if (reader.is(3, PbType::kVarint)) status = read_uint32(path + ".pad_range_start", reader.number(), image.start);
    if (reader.is(4, PbType::kVarint)) status = read_uint32(path + ".pad_range_end", reader.number(), image.end);
    if (!status.ok()) return status;
  }
  if (!reader.ok()) return malformed();
  if (!known_type(image.mime))
    return out_of_range(path + ".mime", "'" + base::presentable(image.mime, kShown) + "'",
                        "image/png, image/jpeg or image/webp");
  if (image.data.empty()) return invalid(path + ".bytes must not be empty");
  size_t all = 0;
  for (const msg::Image& each : out) all += each.data.size();
  if (all > kMaxImageBytes)
    return invalid("images must have at most " + std::to_string(kMaxImageBytes) + " bytes together");
  return {};
}

class RequestReader {
 public:
  explicit RequestReader(const base::Bytes& message) : message_(message) {}

  base::Result<TurnRequest> read() {
    auto request = read_fields();
    if (!fields_.exceeded()) return request;
    return invalid("GenerateRequest has at most " + std::to_string(kMaxFields) +
                   " fields: append_tokens can be packed");
  }

 private:
  base::Result<TurnRequest> read_fields() {
    PbCountedReader reader(message_.view(), fields_);
    while (reader.next())
      if (Status status = field(reader); !status.ok()) return status;
    if (!reader.ok()) return malformed();
    msg::Generation& g = request_.generation;
    generation_params();
    if (priority_ < 0 || priority_ > kMaxPriority)
      return out_of_range("priority", std::to_string(priority_),
                          "0 (interactive) to " + std::to_string(kMaxPriority) + " (batch)");
    request_.priority = uint32_t(priority_);
    msg::merge(g.logprobs);
    msg::merge(g.readouts);
    return std::move(request_);
  }

  // A field with another wire type than its own counts as unknown and is skipped, as protobuf does it.
  Status field(const PbReader& f) {
    switch (f.type()) {
      case PbType::kVarint: return varint(f);
      case PbType::kBytes: return bytes(f);
      default: return generation_param(f);
    }
  }
  Status generation_param(const PbReader& f) {
    constexpr auto kSalience = marshal::Protocol::kSalience;
    const auto* row = marshal::find_param(kSalience, f.field());
    return row ? marshal::read_param(f, kSalience, *row, given_) : Status();
  }
  // A missing field is 0 in this protocol. For temperature and top_p 0 means the default, 1.
  void generation_params() {
    given_.max_tokens = given_.max_tokens.value_or(0);
    if (given_.temperature == 0) given_.temperature = 1;
    if (given_.top_p == 0) given_.top_p = 1;
    marshal::apply(given_, request_.generation);
    request_.stops = std::move(given_.stop);
  }
  Status varint(const PbReader& f) {
    msg::Generation& g = request_.generation;
    switch (f.field()) {
      case kAppendTokens: return marshal::read_ids(f, "append_tokens", kMaxAppend, g.append);
      case kOffset: return read_uint32("offset", f.number(), request_.offset);
      case kTruncating: return request_.rewind = session::Append::Rewind(f.number() != 0), Status{};
      case kPriority: return priority_ = int64_t(f.number()), Status{};
      default: return generation_param(f);
    }
  }
  Status bytes(const PbReader& f) {
    msg::Generation& g = request_.generation;
    switch (f.field()) {
      case kSessionId: return request_.session = session::parse_session_id(f.bytes()), Status{};
      case kAppendTokens: return marshal::read_ids(f, "append_tokens", kMaxAppend, g.append);
      case kLogprobsRanges: return read_range("logprobs_ranges", f.bytes(), fields_, g.logprobs);
      case kReadoutRanges: return read_range("readout_ranges", f.bytes(), fields_, g.readouts);
      case kImages: return read_image(f.bytes(), message_, fields_, g.images);
      default: return generation_param(f);
    }
  }

  const base::Bytes& message_;
  PbFields fields_{kMaxFields};
  TurnRequest request_;
  marshal::GenerationParams given_;
  int64_t priority_ = 0;
};

}  // namespace

session::Append TurnRequest::append() const {
  size_t image_bytes = 0;
  for (const auto& image : generation.images) image_bytes += image.data.size();
  return {offset, rewind, generation.append.size(), image_bytes};
}

void TurnRequest::resume(Relayed had) {
  relayed = std::move(had);
  auto& append = generation.append;
  append.insert(append.end(), relayed.generated.begin(), relayed.generated.end());
  generation.max_tokens -= uint32_t(std::min<size_t>(generation.max_tokens, relayed.generated.size()));
}

bool TurnRequest::idle() const {
  const msg::Generation& g = generation;
  bool wants_readouts = !g.logprobs.empty() || !g.readouts.empty();
  return g.max_tokens == 0 && g.append.empty() && (!wants_readouts || offset == 0);
}

base::Result<TurnRequest> read_request(const base::Bytes& message) { return RequestReader(message).read(); }

}  // namespace weir::salience
