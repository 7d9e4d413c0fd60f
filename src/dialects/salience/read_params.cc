// read_params() of generate_params.h. Fields and numbers: GenerateRequest in proto/salience.proto.
#include <algorithm>
#include <array>
#include <cstdio>

#include "dialects/salience/generate_params.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"
#include "session/session_id.h"
#include "wire/text.h"

namespace weir::salience {
namespace {

using base::invalid;
using base::Status;
using marshal::PbReader;
using marshal::PbType;

enum Field : uint32_t {
  kSessionId = 1,
  kAppendTokens,
  kOffset,
  kTruncating,
  kMaxTokens,
  kLogprobsRanges,
  kLogprobTopK,
  kReadoutRanges,
  kTemperature,
  kTopP,
  kTopK,
  kStopTokenIds,
  kPriority,
  kImages,
  kStopStrings = 1000,
};

Status malformed() { return invalid("the message is not a GenerateRequest"); }

Status out_of_range(const std::string& field, const std::string& value, const std::string& expected) {
  return invalid(field + " is " + value + "; expected " + expected);
}

std::string show(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", double(value));
  return text;
}

Status number(const std::string& field, uint64_t value, uint32_t& out) {
  if (value > UINT32_MAX) return out_of_range(field, std::to_string(value), "at most 4294967295");
  out = uint32_t(value);
  return {};
}

float real(const PbReader& field) {
  auto bits = uint32_t(field.number());
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

Status too_many(const std::string& field, uint64_t limit) {
  return invalid(field + " has more than " + std::to_string(limit) + " entries");
}

// A repeated uint32, packed or one by one.
Status numbers(const char* name, const PbReader& field, size_t limit, std::vector<uint32_t>& out) {
  auto add = [&](uint64_t value) -> Status {
    if (out.size() == limit) return too_many(name, limit);
    if (value <= UINT32_MAX) return out.push_back(uint32_t(value)), Status{};
    return out_of_range(std::string(name) + "[" + std::to_string(out.size()) + "]", std::to_string(value),
                        "at most 4294967295");
  };
  if (field.type() == PbType::kVarint) return add(field.number());
  if (field.type() != PbType::kBytes) return malformed();
  std::string_view packed = field.bytes();
  auto ends = [](char c) { return !(uint8_t(c) & 0x80); };
  size_t count = size_t(std::count_if(packed.begin(), packed.end(), ends));
  if (out.size() + count > limit) return too_many(name, limit);
  if (out.capacity() < out.size() + count) out.reserve(std::max(out.size() + count, 2 * out.capacity()));
  while (!packed.empty()) {
    uint64_t value;
    if (!marshal::take_varint(packed, value)) return malformed();
    if (Status status = add(value); !status.ok()) return status;
  }
  return {};
}

Status range(const char* name, std::string_view message, std::vector<msg::PositionRange>& out) {
  if (out.size() == kMaxRanges) return too_many(name, kMaxRanges);
  std::string path = std::string(name) + "[" + std::to_string(out.size()) + "]";
  msg::PositionRange& r = out.emplace_back();
  PbReader reader(message);
  while (reader.next()) {
    Status status;
    if (reader.is(1, PbType::kVarint)) status = number(path + ".start", reader.number(), r.start);
    if (reader.is(2, PbType::kVarint)) status = number(path + ".end", reader.number(), r.end);
    if (!status.ok()) return status;
  }
  if (!reader.ok()) return malformed();
  if (r.start <= r.end) return {};
  return out_of_range(path, "[" + std::to_string(r.start) + ", " + std::to_string(r.end) + ")", "start <= end");
}

// "image/jpg" is no registered type, but what many clients send. Which format it is, the bytes say.
bool known_type(std::string_view mime) {
  mime = wire::trim(mime.substr(0, mime.find(';')));
  constexpr std::array<std::string_view, 4> kTypes{"image/png", "image/jpeg", "image/jpg", "image/webp"};
  return std::any_of(kTypes.begin(), kTypes.end(), [&](auto type) { return wire::same_text(mime, type); });
}

Status stop(std::string_view text, std::vector<std::string>& out) {
  if (out.size() == kMaxStops) return too_many("stop_strings", kMaxStops);
  std::string path = "stop_strings[" + std::to_string(out.size()) + "]";
  if (text.empty() || text.size() > kMaxStopBytes)
    return out_of_range(path, std::to_string(text.size()) + " bytes long", "1 to " + std::to_string(kMaxStopBytes));
  if (!marshal::valid_utf8(text)) return invalid(path + " is not UTF-8");
  out.emplace_back(text);
  return {};
}

Status image(std::string_view message, const base::Bytes& whole, std::vector<msg::Image>& out) {
  if (out.size() == kMaxImages) return too_many("images", kMaxImages);
  std::string path = "images[" + std::to_string(out.size()) + "]";
  msg::Image& image = out.emplace_back();
  PbReader reader(message);
  while (reader.next()) {
    Status status;
    if (reader.is(1, PbType::kBytes)) image.data = whole.slice(reader.bytes());
    if (reader.is(2, PbType::kBytes)) image.mime = reader.bytes();
    if (reader.is(3, PbType::kVarint)) status = number(path + ".pad_range_start", reader.number(), image.start);
    if (reader.is(4, PbType::kVarint)) status = number(path + ".pad_range_end", reader.number(), image.end);
    if (!status.ok()) return status;
  }
  if (!reader.ok()) return malformed();
  if (!known_type(image.mime)) return invalid(path + ".mime: expected image/png, image/jpeg or image/webp");
  if (image.data.empty()) return invalid(path + ".bytes is empty");
  return {};
}

// So that whoever walks along positions needs no search. A range that holds no position asks for nothing.
void merge(std::vector<msg::PositionRange>& ranges) {
  std::erase_if(ranges, [](auto r) { return r.start == r.end; });
  std::sort(ranges.begin(), ranges.end(), [](auto a, auto b) { return a.start < b.start; });
  size_t n = 0;
  for (auto r : ranges)
    if (n > 0 && r.start <= ranges[n - 1].end)
      ranges[n - 1].end = std::max(ranges[n - 1].end, r.end);
    else
      ranges[n++] = r;
  ranges.resize(n);
}

Status sampling(msg::Sampling& s) {
  if (!(s.temperature >= 0 && s.temperature <= kMaxTemperature))
    return out_of_range("temperature", show(s.temperature), "0.0 to " + show(kMaxTemperature));
  if (!(s.top_p >= 0 && s.top_p <= 1)) return out_of_range("top_p", show(s.top_p), "0.0 to 1.0");
  if (s.temperature == 0) s.temperature = 1;
  if (s.top_p == 0) s.top_p = 1;
  return {};
}

class ParamsReader {
 public:
  explicit ParamsReader(const base::Bytes& message) : message_(message) {
    params_.generation.max_tokens = 0;
    params_.generation.sampling.temperature = params_.generation.sampling.top_p = 0;
  }

  base::Result<GenerateParams> read() {
    PbReader reader(message_.view());
    while (reader.next())
      if (Status status = field(reader); !status.ok()) return status;
    if (!reader.ok()) return malformed();
    msg::Generation& g = params_.generation;
    if (Status status = sampling(g.sampling); !status.ok()) return status;
    if (g.top_logprobs > kMaxTopLogprobs)
      return out_of_range("logprob_top_k", std::to_string(g.top_logprobs),
                          "at most " + std::to_string(kMaxTopLogprobs));
    if (priority_ < 0 || priority_ > kMaxPriority)
      return out_of_range("priority", std::to_string(priority_),
                          "0 (interactive) to " + std::to_string(kMaxPriority) + " (batch)");
    params_.priority = uint32_t(priority_);
    merge(g.logprobs);
    merge(g.readouts);
    return std::move(params_);
  }

 private:
  // A field of another type than ours is one that we do not know, as protobuf has it.
  Status field(const PbReader& f) {
    switch (f.type()) {
      case PbType::kVarint: return varint(f);
      case PbType::kBytes: return bytes(f);
      case PbType::kFixed32:
        if (f.field() == kTemperature) params_.generation.sampling.temperature = real(f);
        if (f.field() == kTopP) params_.generation.sampling.top_p = real(f);
        return {};
      default: return {};
    }
  }
  Status varint(const PbReader& f) {
    msg::Generation& g = params_.generation;
    switch (f.field()) {
      case kAppendTokens: return numbers("append_tokens", f, kMaxAppend, g.append);
      case kOffset: return number("offset", f.number(), params_.offset);
      case kTruncating: return params_.rewind = session::Append::Rewind(f.number() != 0), Status{};
      case kMaxTokens: return number("max_tokens", f.number(), g.max_tokens);
      case kLogprobTopK: return number("logprob_top_k", f.number(), g.top_logprobs);
      case kTopK: return number("top_k", f.number(), g.sampling.top_k);
      case kStopTokenIds: return numbers("stop_token_ids", f, kMaxStopIds, g.stop_ids);
      case kPriority: return priority_ = int64_t(f.number()), Status{};
      default: return {};
    }
  }
  Status bytes(const PbReader& f) {
    msg::Generation& g = params_.generation;
    switch (f.field()) {
      case kSessionId: return params_.session = session::parse_session_id(f.bytes()), Status{};
      case kAppendTokens: return numbers("append_tokens", f, kMaxAppend, g.append);
      case kLogprobsRanges: return range("logprobs_ranges", f.bytes(), g.logprobs);
      case kReadoutRanges: return range("readout_ranges", f.bytes(), g.readouts);
      case kStopTokenIds: return numbers("stop_token_ids", f, kMaxStopIds, g.stop_ids);
      case kImages: return image(f.bytes(), message_, g.images);
      case kStopStrings: return stop(f.bytes(), params_.stops);
      default: return {};
    }
  }

  const base::Bytes& message_;
  GenerateParams params_;
  int64_t priority_ = 0;
};

}  // namespace

session::Append GenerateParams::append() const {
  size_t image_bytes = 0;
  for (const auto& image : generation.images) image_bytes += image.data.size();
  return {offset, rewind, generation.append.size(), image_bytes};
}

bool GenerateParams::idle() const {
  const msg::Generation& g = generation;
  bool looks = !g.logprobs.empty() || !g.readouts.empty();
  return g.max_tokens == 0 && g.append.empty() && (!looks || offset == 0);
}

base::Result<GenerateParams> read_params(const base::Bytes& message) { return ParamsReader(message).read(); }

}  // namespace weir::salience
