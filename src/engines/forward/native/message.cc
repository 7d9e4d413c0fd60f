#include "engines/forward/native/message.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/openai/message.h"
#include "marshal/pb_wire.h"
#include "wire/grpc_frames.h"

namespace weir::forward {
namespace {

using base::Status;
using marshal::PbReader;
using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_text;
using marshal::put_varint;

constexpr size_t kMostTops = 256, kMostEnds = 4096, kMostConcepts = 65536, kMostLayers = 4096,
                 kLongestConceptName = 4096;
constexpr size_t kMostValues = size_t(1) << 20;  // floats of one event
constexpr uint32_t kLongestContext = 1 << 24;

Status bad(std::string_view what) {
  return base::failure(base::Code::kInternal, "its answer is no message of weir's: " + std::string(what));
}

// --- the request -----------------------------------------------------------------------------------------------------

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_tag(out, field, PbType::kVarint);
  put_varint(out, value);
}

void put_float(std::string& out, uint32_t field, float value) {
  put_tag(out, field, PbType::kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  out.append(reinterpret_cast<const char*>(&bits), sizeof bits);
}

void put_ids(std::string& out, uint32_t field, std::initializer_list<std::span<const uint32_t>> lists) {
  size_t size = 0;
  for (const auto list : lists)
    for (uint32_t id : list) size += marshal::varint_size(id);
  if (size == 0) return;
  put_tag(out, field, PbType::kBytes);
  put_varint(out, size);
  for (const auto list : lists)
    for (uint32_t id : list) put_varint(out, id);
}

void put_ranges(std::string& out, uint32_t field, std::span<const msg::PositionRange> ranges) {
  for (const auto& range : ranges) {
    std::string one;
    put_number(one, 1, range.start);
    put_number(one, 2, range.end);
    put_bytes(out, field, one);
  }
}

std::string params_of(const msg::Generation& g, uint32_t done) {
  const msg::Sampling& s = g.sampling;
  std::string out;
  put_number(out, 1, g.max_tokens - std::min(done, g.max_tokens));
  put_float(out, 2, s.temperature);
  put_float(out, 3, s.top_p);
  put_number(out, 4, s.top_k);
  put_float(out, 5, s.min_p);
  put_float(out, 6, s.presence_penalty);
  put_float(out, 7, s.frequency_penalty);
  put_float(out, 8, s.repetition_penalty);
  if (s.seed) put_number(out, 9, later_seed(*s.seed, done));
  if (g.ignore_eos) put_number(out, 11, 1);
  put_number(out, 12, g.min_tokens - std::min(done, g.min_tokens));
  put_number(out, 15, g.top_logprobs);
  return out;
}

std::string form_of(const msg::StructuredOutput& form, uint32_t done) {
  std::string out;
  put_number(out, 1, uint64_t(form.kind));
  put_text(out, 2, form.text);
  for (const auto& choice : form.choices) put_bytes(out, 3, choice);
  put_number(out, 4, uint64_t(form.thoughts));
  put_number(out, 5, done);
  put_number(out, 6, uint64_t(form.schema));
  return out;
}

// All of an Image but its data, which follows.
std::string image_head(const msg::Image& image) {
  std::string inner;
  put_text(inner, 2, image.mime);
  put_number(inner, 3, image.start);
  put_number(inner, 4, image.end);
  put_tag(inner, 1, PbType::kBytes);
  put_varint(inner, image.data.size());
  std::string out;
  put_tag(out, 14, PbType::kBytes);
  put_varint(out, inner.size() + image.data.size());
  return out + inner;
}

template <class F>
void each_image(const msg::Generation& g, F&& f) {
  for (const auto& image : g.history_images) f(image);
  for (const auto& image : g.images) f(image);
}

// --- the answer ------------------------------------------------------------------------------------------------------

bool read_ids(const PbReader& r, size_t most, std::vector<uint32_t>& out) {
  auto add = [&](uint64_t id) {
    if (id > UINT32_MAX || out.size() == most) return false;
    out.push_back(uint32_t(id));
    return true;
  };
  if (r.type() == PbType::kVarint) return add(r.number());
  if (r.type() != PbType::kBytes) return true;
  std::string_view packed = r.bytes();
  for (uint64_t id = 0; !packed.empty();)
    if (!marshal::take_varint(packed, id) || !add(id)) return false;
  return true;
}

// Packed floats.
bool read_floats(const PbReader& r, size_t most, std::vector<float>& out) {
  const std::string_view bytes = r.bytes();
  if (r.type() != PbType::kBytes || bytes.size() % sizeof(float) != 0 || !out.empty()) return false;
  if (bytes.size() / sizeof(float) > most) return false;
  out.resize(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return true;
}

base::Result<msg::Event> read_token(std::string_view message, const msg::TextSpec& text) {
  msg::Token token;
  msg::TokenDetails details;
  std::vector<uint32_t> ids;
  std::vector<float> logprobs;
  uint64_t id = 0, position = 0;
  marshal::PbFields fields;
  marshal::PbCountedReader r(message, fields);
  bool ok = true, has_details = false;
  while (ok && r.next()) {
    if (r.is(8, PbType::kVarint)) has_details = r.number() != 0;
    if (r.is(1, PbType::kVarint)) id = r.number();
    if (r.is(2, PbType::kVarint)) position = r.number();
    if (r.is(3, PbType::kVarint)) token.prefill = r.number() != 0;
    if (r.is(4, PbType::kFixed32)) {
      details.has_logprob = true;
      details.logprob = std::bit_cast<float>(uint32_t(r.number()));
    }
    if (r.field() == 5) ok = read_ids(r, kMostTops, ids);
    if (r.field() == 6) ok = read_floats(r, kMostTops, logprobs);
    if (r.field() == 7) ok = read_floats(r, kMostValues, details.readout);
  }
  if (!ok || !r.ok()) return bad("a token cannot be read");
  if (id >= text.vocabulary)
    return bad("token id " + std::to_string(id) + " is outside of the vocabulary of " +
               std::to_string(text.vocabulary));
  if (position >= kLongestContext) return bad("a token's position");
  if (ids.size() != logprobs.size()) return bad("log-probabilities that are not those of their tokens");
  if (!details.readout.empty() && details.readout.size() != text.readout_layers.size() * text.concepts.size())
    return bad("a readout of another size than the model's");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= text.vocabulary) return bad("an alternative that is outside of the vocabulary");
    details.top.push_back({ids[i], logprobs[i]});
  }
  token.id = uint32_t(id), token.position = uint32_t(position);
  if (has_details) token.details = std::make_shared<const msg::TokenDetails>(std::move(details));
  return msg::Event{std::move(token)};
}

base::Result<msg::Event> read_done(std::string_view message) {
  msg::Done done;
  uint64_t finish = 0;
  bool filtered = false;
  marshal::PbFields fields;
  marshal::PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.type() != PbType::kVarint) continue;
    const auto number = uint32_t(std::min<uint64_t>(r.number(), UINT32_MAX));
    if (r.field() == 1) done.cached_tokens = number;
    if (r.field() == 2) done.completion_tokens = number;
    if (r.field() == 3) finish = r.number();
    if (r.field() == 4) done.stop_id = number;
    if (r.field() == 5) filtered = number > 0;
  }
  if (!r.ok() || finish > uint64_t(msg::Finish::kLength)) return bad("the end of a text cannot be read");
  done.finish = filtered ? msg::Finish::kFiltered : msg::Finish(finish);
  return msg::Event{done};
}

base::Result<msg::Event> read_embedding(std::string_view message, const msg::TextSpec& text) {
  std::vector<float> values;
  bool ok = true;
  marshal::PbFields fields;
  marshal::PbCountedReader r(message, fields);
  while (ok && r.next())
    if (r.field() == 1) ok = read_floats(r, kMostValues, values);
  if (!ok || !r.ok() || values.size() != text.hidden_size) return bad("an embedding of another size than the model's");
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  msg::Outputs out;
  out.tensors.push_back({"embedding", msg::DType::kFp32, {int64_t(values.size())}, base::Bytes::copy_of(bytes)});
  return msg::Event{std::move(out)};
}

}  // namespace

bool has_images(const msg::Call& call) {
  return !call.generation->images.empty() || !call.generation->history_images.empty();
}

Status images_fit(const msg::Call& call) {
  size_t bytes = 0;
  each_image(*call.generation, [&](const msg::Image& image) { bytes += image.data.size(); });
  if (bytes <= kMostImageBytes) return {};
  return base::invalid("images: at most " + std::to_string(kMostImageBytes) + " bytes of them can be forwarded");
}

std::vector<base::Bytes> write_sequence(const msg::Call& call, std::span<const uint32_t> generated,
                                        std::string_view model, std::string_view version) {
  const msg::Generation& g = *call.generation;
  const auto done = uint32_t(generated.size());
  std::string out(wire::kGrpcPrefix, '\0');
  out.reserve(256 + 4 * (g.length() + done));
  put_text(out, 1, model);
  put_text(out, 2, version);
  put_text(out, 3, call.id);
  if (call.priority > 0) put_number(out, 4, call.priority);
  if (g.aim == msg::Aim::kEmbed) put_number(out, 5, 1);
  put_ids(out, 6, {g.history, g.append, generated});
  put_bytes(out, 7, params_of(g, done));
  put_ids(out, 8, {g.stop_ids});
  for (const auto& [id, bias] : g.sampling.logit_bias) {
    std::string one;
    put_number(one, 1, id);
    put_float(one, 2, bias);
    put_bytes(out, 9, one);
  }
  put_ranges(out, 10, g.logprobs);
  put_ranges(out, 11, g.readouts);
  // Prefixes that are not shared here are not shared there.
  const uint64_t salt = g.cache_salt ^ call.cache_scope;
  put_tag(out, 12, PbType::kFixed64);
  out.append(reinterpret_cast<const char*>(&salt), sizeof salt);
  if (g.constraint && g.constraint->form()) put_bytes(out, 13, form_of(*g.constraint->form(), done));
  std::vector<base::Bytes> pieces(1);
  size_t size = out.size() - wire::kGrpcPrefix;
  each_image(g, [&](const msg::Image& image) {
    pieces.push_back(base::Bytes::adopt(image_head(image)));
    pieces.push_back(image.data);
    size += pieces.end()[-2].size() + image.data.size();
  });
  const auto prefix = wire::grpc_prefix(wire::GrpcFlag::kPlain, uint32_t(size));
  out.replace(0, prefix.size(), reinterpret_cast<const char*>(prefix.data()), prefix.size());
  pieces.front() = base::Bytes::adopt(std::move(out));
  return pieces;
}

base::Result<msg::Event> read_event(std::string_view message, const msg::TextSpec& text) {
  marshal::PbFields fields;
  marshal::PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.is(1, PbType::kBytes)) return read_token(r.bytes(), text);
    if (r.is(2, PbType::kBytes)) return read_done(r.bytes());
    if (r.is(3, PbType::kBytes)) return read_embedding(r.bytes(), text);
  }
  return bad("an event of no kind");
}

namespace {

std::optional<DescribedModel::Vision> read_vision(std::string_view message, marshal::PbFields& fields) {
  DescribedModel::Vision out;
  uint64_t largest = 0;
  marshal::PbCountedReader r(message, fields);
  while (r.next()) {
    if (r.type() != PbType::kVarint) continue;
    largest = std::max(largest, r.number());
    const auto number = uint32_t(r.number());
    if (r.field() == 1) out.start_id = number;
    if (r.field() == 2) out.pad_id = number;
    if (r.field() == 3) out.end_id = number;
    if (r.field() == 4) out.pads = number;
  }
  if (!r.ok() || largest > kLongestContext || out.pads == 0) return {};
  return out;
}

}  // namespace

base::Result<DescribedModel> read_description(std::string_view message) {
  DescribedModel out;
  bool ok = true;
  auto number = [&](const PbReader& r, uint32_t& to) {
    ok = r.type() == PbType::kVarint && r.number() <= kLongestContext;
    if (ok) to = uint32_t(r.number());
  };
  auto concept_name = [&](const PbReader& r) {
    ok = r.type() == PbType::kBytes && out.concepts.size() < kMostConcepts && r.bytes().size() <= kLongestConceptName;
    if (ok) out.concepts.emplace_back(r.bytes());
  };
  marshal::PbFields fields(2 * kMostConcepts);
  marshal::PbCountedReader r(message, fields);
  while (ok && r.next()) switch (r.field()) {
      case 2: out.platform = base::presentable(r.bytes(), 64); break;
      case 3: out.makes_tokens = r.number() != 0; break;
      case 4: number(r, out.max_length); break;
      case 5: number(r, out.vocabulary); break;
      case 6: number(r, out.hidden_size); break;
      case 7: out.normalized = r.number() != 0; break;
      case 8: ok = read_ids(r, kMostEnds, out.eos_ids); break;
      case 9: concept_name(r); break;
      case 10: ok = read_ids(r, kMostLayers, out.readout_layers); break;
      case 11: out.readout_dtype = base::presentable(r.bytes(), 64); break;
      case 12: ok = (out.vision = read_vision(r.bytes(), fields)).has_value(); break;
      default: break;
    }
  if (!ok || !r.ok()) return bad("the description of a model cannot be read");
  if (out.makes_tokens && (out.max_length == 0 || out.vocabulary == 0)) return bad("a model without a vocabulary");
  if (out.vision && std::max({out.vision->start_id, out.vision->pad_id, out.vision->end_id}) >= out.vocabulary)
    return bad("images whose tokens are outside of the vocabulary");
  return out;
}

}  // namespace weir::forward
