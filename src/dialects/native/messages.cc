#include "dialects/native/messages.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "marshal/pb_wire.h"
#include "marshal/structured_params.h"

namespace weir::native {
namespace {

using base::invalid;
using base::Status;
using marshal::PbCountedReader;
using marshal::PbReader;
using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_varint;

constexpr auto kNumbers = marshal::Protocol::kEvergreen;  // whose numbers SequenceParams has
constexpr size_t kTextOfToken = 16;  // bytes of text that take a grammar as long as a token that has begun it
constexpr float kMostBias = 100;
constexpr size_t kLongestMime = 128;
constexpr uint32_t kImagesField = 14;

Status malformed() { return invalid("the message cannot be decoded as a Sequence"); }

Status read_params(std::string_view message, marshal::PbFields& fields, marshal::GenerationParams& out) {
  PbCountedReader r(message, fields);
  while (r.next()) {
    const auto* row = marshal::find_param(kNumbers, r.field());
    if (!row) continue;
    if (Status status = marshal::read_param(r, kNumbers, *row, out); !status.ok()) return status;
  }
  return r.ok() ? Status() : malformed();
}

Status read_bias(std::string_view message, marshal::PbFields& fields, marshal::GenerationParams& out) {
  uint64_t id = 0;
  float bias = 0;
  PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.is(1, PbType::kVarint)) id = r.number();
    if (r.is(2, PbType::kFixed32)) bias = std::bit_cast<float>(uint32_t(r.number()));
  }
  if (!r.ok()) return malformed();
  if (out.logit_bias.size() == marshal::kMaxBiases) return invalid("logit_bias has too many entries");
  if (id > UINT32_MAX || !(std::fabs(bias) <= kMostBias)) return invalid("logit_bias must be >= -100 and <= 100");
  out.logit_bias.emplace_back(uint32_t(id), bias);
  return {};
}

Status read_range(const char* name, std::string_view message, marshal::PbFields& fields,
                  std::vector<msg::PositionRange>& out) {
  uint64_t start = 0, end = 0;
  PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.is(1, PbType::kVarint)) start = r.number();
    if (r.is(2, PbType::kVarint)) end = r.number();
  }
  if (!r.ok()) return malformed();
  if (out.size() == kMostRanges) return invalid(std::string(name) + " has too many ranges");
  if (end > UINT32_MAX || start > end) return invalid(std::string(name) + ": a range must have start <= end");
  out.push_back({uint32_t(start), uint32_t(end)});
  return {};
}

Status read_form(std::string_view message, marshal::PbFields& fields, SequenceRequest& out) {
  using Form = msg::StructuredOutput;
  Form form;
  uint64_t kind = 0, thoughts = 0, begun = 0, schema = 0, choices = 0;
  PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.is(1, PbType::kVarint)) kind = r.number();
    if (r.is(2, PbType::kBytes)) form.text = r.bytes();
    if (r.is(3, PbType::kBytes)) {
      choices += r.bytes().size();
      if (choices > marshal::kMaxForm)
        return invalid("form: all choices together must have at most " + std::to_string(marshal::kMaxForm) + " bytes");
      form.choices.emplace_back(r.bytes());
    }
    if (r.is(4, PbType::kVarint)) thoughts = r.number();
    if (r.is(5, PbType::kVarint)) begun = r.number();
    if (r.is(6, PbType::kVarint)) schema = r.number();
    if (form.choices.size() > kMostChoices) return invalid("form has too many choices");
  }
  if (!r.ok()) return malformed();
  if (kind > uint64_t(Form::Kind::kToolCalls) || thoughts > uint64_t(Form::Thoughts::kBegun) ||
      schema > uint64_t(Form::Schema::kGuide) || begun > kMostTokens)
    return invalid("form is of no kind");
  form.kind = Form::Kind(kind), form.thoughts = Form::Thoughts(thoughts), form.schema = Form::Schema(schema);
  form.param = "form";
  out.params.structured = std::move(form);
  out.begun = uint32_t(begun);
  return {};
}

Status read_image(const base::Bytes& message, std::string_view encoded, marshal::PbFields& fields,
                  std::vector<msg::Image>& out) {
  if (out.size() == kMostImages) return invalid("images: at most " + std::to_string(kMostImages) + " of them");
  uint64_t start = 0, end = 0;
  msg::Image image;
  PbCountedReader r(encoded, fields);
  while (r.next()) {
    if (r.is(1, PbType::kBytes)) image.data = message.slice(r.bytes());
    if (r.is(2, PbType::kBytes)) image.mime = r.bytes().substr(0, kLongestMime);
    if (r.is(3, PbType::kVarint)) start = r.number();
    if (r.is(4, PbType::kVarint)) end = r.number();
  }
  if (!r.ok()) return malformed();
  if (end > kMostTokens || start > end) return invalid("images: an image must have start <= end");
  image.start = uint32_t(start), image.end = uint32_t(end);
  out.push_back(std::move(image));
  return {};
}

// As the tokens have it: start, a pad for each feature, end.
Status check_image(const msg::Image& image, size_t number, const msg::Generation& g,
                   const msg::TextSpec::Vision& vision) {
  const std::string name = "images[" + std::to_string(number) + "]";
  const auto& tokens = g.append;
  const size_t before = number == 0 ? 0 : g.images[number - 1].end;
  if (image.start < before || image.end > tokens.size() || image.end < image.start + 3)
    return invalid(name + " has no place in the sequence");
  const auto pads = std::span(tokens).subspan(image.start + 1, image.end - image.start - 2);
  const bool stands = tokens[image.start] == vision.start_id && tokens[image.end - 1] == vision.end_id &&
                      std::all_of(pads.begin(), pads.end(), [&](uint32_t id) { return id == vision.pad_id; });
  if (!stands) return invalid(name + ": the tokens at its positions do not stand for an image");
  auto features = vision.features(image.data.view(), image.mime);
  if (!features) return base::failure(features.error().code, name + ": " + features.error().text);
  if (*features == pads.size()) return {};
  return invalid(name + " has " + std::to_string(pads.size()) + " pads, and the model makes " +
                 std::to_string(*features) + " features of it");
}

// The header of a PNG of that size; nothing else of it is looked at for its features.
std::string header_of_png(uint8_t width, uint8_t height) {
  std::string out("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
  for (uint8_t side : {width, height}) out.append(3, '\0') += char(side);
  return out + std::string("\x08\x02\0\0\0\0\0\0\0", 9);
}

Status read_field(const base::Bytes& message, const PbReader& r, marshal::PbFields& fields, SequenceRequest& out) {
  msg::Generation& g = out.generation;
  const bool bytes = r.type() == PbType::kBytes, number = r.type() == PbType::kVarint;
  switch (r.field()) {
    case 1: return bytes ? out.model = r.bytes(), Status() : Status();
    case 2: return bytes ? out.version = r.bytes(), Status() : Status();
    case 3: return bytes ? out.id = r.bytes(), Status() : Status();
    case 4: return number && r.number() <= UINT32_MAX ? out.priority = uint32_t(r.number()), Status() : Status();
    case 5:
      if (number && r.number() > 1) return invalid("aim is none of Aim's");
      return number && r.number() == 1 ? g.aim = msg::Aim::kEmbed, Status() : Status();
    case 6: return marshal::read_ids(r, "tokens", kMostTokens, g.append);
    case 7: return bytes ? read_params(r.bytes(), fields, out.params) : Status();
    case 8: return marshal::read_ids(r, "stop_ids", marshal::kMaxStopIds, out.params.stop_ids);
    case 9: return bytes ? read_bias(r.bytes(), fields, out.params) : Status();
    case 10: return bytes ? read_range("logprobs", r.bytes(), fields, g.logprobs) : Status();
    case 11: return bytes ? read_range("readouts", r.bytes(), fields, g.readouts) : Status();
    case 12: return r.type() == PbType::kFixed64 ? g.cache_salt = r.number(), Status() : Status();
    case 13: return bytes ? read_form(r.bytes(), fields, out) : Status();
    case kImagesField: return bytes ? read_image(message, r.bytes(), fields, g.images) : Status();
    default: return {};
  }
}

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_tag(out, field, PbType::kVarint);
  put_varint(out, value);
}

void put_floats(std::string& out, uint32_t field, const float* values, size_t count) {
  put_bytes(out, field, {reinterpret_cast<const char*>(values), count * sizeof(float)});
}

std::string event(uint32_t field, std::string_view message) {
  std::string out;
  out.reserve(message.size() + 8);
  put_bytes(out, field, message);
  return out;
}

void put_details(std::string& out, const msg::TokenDetails& details) {
  put_number(out, 8, 1);
  if (details.has_logprob) {
    put_tag(out, 4, PbType::kFixed32);
    out.append(reinterpret_cast<const char*>(&details.logprob), sizeof details.logprob);
  }
  if (!details.top.empty()) {
    std::string ids, logprobs;
    for (const auto& top : details.top) {
      put_varint(ids, top.id);
      logprobs.append(reinterpret_cast<const char*>(&top.logprob), sizeof top.logprob);
    }
    put_bytes(out, 5, ids);
    put_bytes(out, 6, logprobs);
  }
  if (!details.readout.empty()) put_floats(out, 7, details.readout.data(), details.readout.size());
}

}  // namespace

size_t SequenceRequest::weight_of_form() const {
  size_t bytes = generation.append.size() * sizeof(uint32_t) + begun * kTextOfToken;
  if (!params.structured) return bytes;
  bytes += params.structured->text.size();
  for (const auto& choice : params.structured->choices) bytes += choice.size();
  return bytes;
}

base::Result<SequenceRequest> read_sequence(const base::Bytes& message) {
  SequenceRequest out;
  marshal::PbFields fields;  // without tokens that are not packed: there are kMostTokens of those
  size_t images = 0, rest = 0;
  PbReader r(message.view());
  while (r.next() && (r.is(6, PbType::kVarint) || fields.take(r.type() == PbType::kGroup ? r.encoded_size() : 1))) {
    if (r.type() == PbType::kBytes) (r.field() == kImagesField ? images : rest) += r.bytes().size();
    if (images > kMostImageBytes || rest > kLargestSequence)
      return invalid("a Sequence has at most " + std::to_string(kLargestSequence) + " bytes, and " +
                     std::to_string(kMostImageBytes) + " of images");
    if (Status status = read_field(message, r, fields, out); !status.ok()) return status;
  }
  if (!r.ok() || fields.exceeded()) return malformed();
  if (out.begun > out.generation.append.size()) return invalid("form has begun before the sequence");
  msg::merge(out.generation.logprobs);
  msg::merge(out.generation.readouts);
  return out;
}

Status apply(SequenceRequest& request, const msg::TextSpec& spec) {
  msg::Generation& g = request.generation;
  if (!g.readouts.empty() && spec.concepts.empty())
    return base::failure(base::Code::kFailedPrecondition, "readouts: this model has none");
  if (!g.images.empty() && !spec.vision)
    return base::failure(base::Code::kFailedPrecondition, "images: this model takes none");
  for (size_t i = 0; i < g.images.size(); ++i)
    if (Status status = check_image(g.images[i], i, g, *spec.vision); !status.ok()) return status;
  if (auto bad = marshal::apply(request.params, spec, g); !bad.status.ok()) return bad.status;
  if (g.aim == msg::Aim::kEmbed) return {};
  return marshal::apply_length(request.params, spec, 0, g).status;
}

uint32_t pads_of_any(const msg::TextSpec::Vision& vision) {
  const auto small = vision.features(header_of_png(1, 1), "image/png");
  const auto wide = vision.features(header_of_png(255, 100), "image/png");
  return small && wide && *small == *wide ? *small : 0;
}

std::string write_token(const msg::Token& token) {
  std::string out;
  put_number(out, 1, token.id);
  put_number(out, 2, token.position);
  if (token.prefill) put_number(out, 3, 1);
  if (token.details) put_details(out, *token.details);
  return event(1, out);
}

std::string write_done(const msg::Done& done) {
  std::string out;
  put_number(out, 1, done.cached_tokens);
  put_number(out, 2, done.completion_tokens);
  const bool filtered = done.finish == msg::Finish::kFiltered;
  put_number(out, 3, uint64_t(filtered ? msg::Finish::kEos : done.finish));
  put_number(out, 4, done.stop_id);
  if (filtered) put_number(out, 5, 1);
  return event(2, out);
}

std::string write_embedding(const msg::Tensor& tensor) {
  std::string out;
  put_bytes(out, 1, tensor.data.view());
  return event(3, out);
}

}  // namespace weir::native
