// An engine of tokens for tests: what it draws is a hash of the whole sequence before, read back from its own memory
// through the block tables, so that any mistake about blocks, slots, positions or chunks changes what comes out. And
// the reference: what a Call must say, computed from the Call alone.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "generation/engine.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

inline uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9e3779b97f4a7c15;
  return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9;
}

// A form that depends on all tokens since its beginning: of `length` tokens, or an end of the text at every third.
class FakeConstraint final : public msg::TokenConstraint {
 public:
  static constexpr uint32_t kVocabulary = 97, kEos = 3;
  explicit FakeConstraint(uint32_t length) : length_(length) { find(); }
  std::unique_ptr<FakeConstraint> fresh() const { return std::make_unique<FakeConstraint>(length_); }

  void prepare() override {}
  std::span<const uint32_t> mask() override { return words_; }
  bool accept(uint32_t id) override {
    if (!msg::allows(words_, id)) return false;
    ++count_, sum_ = mix(sum_, id);
    find();
    return true;
  }
  bool complete() const override { return count_ == length_; }

 private:
  void find() {
    words_.assign((kVocabulary + 31) / 32, 0);
    for (uint32_t id = 0; id < kVocabulary; ++id)
      if (id == kEos ? count_ % 3 == 2 : mix(sum_, id) % 4 != 0) words_[id / 32] |= 1u << id % 32;
  }
  const uint32_t length_;
  uint32_t count_ = 0;
  uint64_t sum_ = 0;
  std::vector<uint32_t> words_;
};

// The fake model's next token after a sequence whose hash is `h`.
struct FakeModel {
  static constexpr uint32_t kVocabulary = 97, kEos = 3, kHidden = 4, kReadouts = 3;

  static uint32_t draw(uint64_t h, const msg::Generation& params, uint64_t seed, uint64_t index, bool hold,
                       msg::TokenConstraint* form) {
    uint64_t luck = params.sampling.temperature == 0 ? h : mix(h, mix(seed, index));
    for (;; ++luck) {
      auto id = uint32_t(mix(luck, 7) % (params.sampling.top_k > 0 ? params.sampling.top_k : kVocabulary));
      bool stops = id == kEos || std::find(params.stop_ids.begin(), params.stop_ids.end(), id) != params.stop_ids.end();
      if ((!hold || !stops) && (!form || msg::allows(form->mask(), id))) return id;
    }
  }
  static float logprob(uint64_t h, uint32_t id) { return -float(mix(h, id + 1000) % 1000) / 100; }
  static std::vector<msg::TokenLogprob> best(uint64_t h, uint32_t top) {
    std::vector<msg::TokenLogprob> out;
    for (uint32_t i = 0; i < top; ++i) out.push_back({uint32_t(mix(h, i) % kVocabulary), -float(i)});
    return out;
  }
  static std::vector<float> readout(uint64_t h) {
    return {float(mix(h, 1) % 991), float(mix(h, 2) % 991), float(mix(h, 3) % 991)};
  }
  static float hidden(uint64_t h, uint32_t i) { return float(mix(h, 50 + i) % 64); }
  static float feature(std::string_view data, uint32_t k) {
    uint64_t h = k;
    for (char c : data) h = mix(h, uint8_t(c));
    return float(h % 1'000'003);
  }
  static uint64_t pad_word(float feature) { return uint64_t(1) << 32 | std::bit_cast<uint32_t>(feature); }
};

inline msg::ModelSpec token_spec(uint32_t max_length = 4096) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = max_length;
  text->vocabulary = FakeModel::kVocabulary;
  text->hidden_size = FakeModel::kHidden;
  text->eos_ids = {FakeModel::kEos};
  text->vision = msg::TextSpec::Vision{};
  msg::ModelSpec spec;
  spec.name = "talker";
  spec.batching.priority_levels = 3;
  spec.text = std::move(text);
  spec.adapters = {{"first", "adapters/first"}, {"second", "adapters/second"}};
  return spec;
}

// An image of n bytes makes n features; one that begins with '!' cannot be decoded.
class FakeTokenEngine final : public TokenEngine {
 public:
  explicit FakeTokenEngine(const msg::ModelSpec& spec) : spec_(spec) {}

  const msg::TextSpec& text() const override { return *spec_.text; }
  size_t kv_bytes(size_t positions) const override { return positions * 16; }
  base::Status reserve(uint32_t blocks, uint32_t block_size) override {
    block_size_ = block_size;
    memory_.assign(size_t(blocks) * block_size, {});
    return {};
  }
  base::Status step(TokenStep& step) override;
  void copy_block(uint32_t from, uint32_t to, uint32_t positions) override {
    for (uint32_t i = 0; i < positions; ++i) memory_[to * block_size_ + i] = memory_[from * block_size_ + i];
    ++copies;
  }
  base::Result<ImageFeatures> encode_image(const msg::Image& image) override {
    ++images_encoded;
    auto data = image.data.view();
    if (data.starts_with('!')) return base::invalid("the image cannot be decoded");
    ImageFeatures out{uint32_t(data.size()), {}};
    for (uint32_t k = 0; k < out.count; ++k)
      for (uint32_t i = 0; i < FakeModel::kHidden; ++i) out.rows.push_back(FakeModel::feature(data, k));
    return out;
  }

  int fail_at = -1;  // fails this step, counted from now
  int wild_at = -1;  // the first look of this step has an id that is none
  uint64_t steps = 0, fed = 0, copies = 0, images_encoded = 0, most_rows = 0;

 private:
  struct Cell {
    uint64_t word = 0;
    uint32_t position = ~uint32_t(0), adapter = 0;
  };
  std::vector<uint64_t> hashes(const TokenStep& step, const TokenStep::Row& row) const;
  // Only guesses have draws of their row before them.
  static size_t guesses_before(const TokenStep& step, const TokenStep::LogitsRequest& request) {
    size_t n = 0;
    for (auto* before = &request; before != step.logits_requests.data(); ++n)
      if ((--before)->row != request.row || before->kind != TokenStep::LogitsRequest::Kind::kSample) break;
    return n;
  }

  const msg::ModelSpec& spec_;
  uint32_t block_size_ = 0;
  std::vector<Cell> memory_;
  std::vector<uint32_t> sampled_;  // by the last step
};

inline base::Status FakeTokenEngine::step(TokenStep& step) {
  ++steps, fed += step.ids.size();
  most_rows = std::max<uint64_t>(most_rows, step.rows.size());
  if (fail_at >= 0 && fail_at-- == 0) return base::failure(base::Code::kInternal, "the engine broke");
  std::vector<uint64_t> words;
  for (uint32_t id : step.ids) words.push_back(id & TokenStep::kSampled ? sampled_.at(id & ~TokenStep::kSampled) : id);
  sampled_.clear();
  for (auto& patch : step.patches) words[patch.token] = FakeModel::pad_word(*patch.feature);
  for (const auto& row : step.rows)
    for (uint32_t i = row.first; i < row.first + row.count; ++i)
      memory_[step.slots[i]] = {words[i], step.positions[i], row.adapter};
  std::vector<std::vector<uint64_t>> after;  // by row: the hash after each of its tokens
  for (auto& row : step.rows) after.push_back(hashes(step, row));
  auto hash_at = [&](uint32_t token) {
    size_t row = 0;
    while (token >= step.rows[row].first + step.rows[row].count) ++row;
    return after[row][token - step.rows[row].first];
  };
  for (auto& request : step.logits_requests) {
    uint64_t h = hash_at(request.token);
    if (request.kind == TokenStep::LogitsRequest::Kind::kSample)
      request.id = FakeModel::draw(h, *request.params, request.seed, request.draw, request.hold_eos,
                                   request.params->constraint.get());
    if (request.wants_logprob)
      request.logprob = FakeModel::logprob(h, request.id), request.best = FakeModel::best(h, request.top);
    bool ahead = step.ids[request.token] & TokenStep::kSampled;
    size_t fed = step.positions[request.token] + !ahead;
    if (request.kind == TokenStep::LogitsRequest::Kind::kSample) fed -= guesses_before(step, request);
    base::check(request.sequence.size() == fed, "a look brings the tokens so far");
    sampled_.push_back(request.id);
  }
  if (wild_at >= 0 && wild_at-- == 0) step.logits_requests.front().id = FakeModel::kVocabulary;
  for (auto& readout : step.readouts) readout.values = FakeModel::readout(hash_at(readout.token));
  for (auto& pool : step.pools) {
    pool.sum.resize(FakeModel::kHidden);
    for (uint64_t h : after[pool.row])
      for (uint32_t i = 0; i < FakeModel::kHidden; ++i) pool.sum[i] += double(FakeModel::hidden(h, i));
  }
  return {};
}

// A position whose memory is not its own, or is another adapter's, makes a hash that no reference has.
inline std::vector<uint64_t> FakeTokenEngine::hashes(const TokenStep& step, const TokenStep::Row& row) const {
  std::vector<uint64_t> out;
  uint64_t h = 1 + row.adapter;
  for (uint32_t p = 0; p < row.length; ++p) {
    const auto& cell = memory_[size_t(step.tables[row.table + p / block_size_]) * block_size_ + p % block_size_];
    h = mix(h, cell.position == p && cell.adapter == row.adapter ? cell.word : 0xbad + cell.position);
    if (p >= row.length - row.count) out.push_back(h);
  }
  base::check(step.positions[row.first] == row.length - row.count, "a row ends at its length");
  return out;
}

// All that a Call says, as text: "p12:5" a prompt's token, "g13:7" a generated one, its details behind it, "done …".
inline std::string told(const msg::Token& token) {
  auto text = (token.prefill ? "p" : "g") + std::to_string(token.position) + ":" + std::to_string(token.id);
  if (!token.details) return text;
  const auto& d = *token.details;
  if (d.has_logprob) text += " l" + std::to_string(d.logprob);
  for (auto& t : d.top) text += " t" + std::to_string(t.id) + "=" + std::to_string(t.logprob);
  for (float r : d.readout) text += " r" + std::to_string(int(r));
  return text;
}
inline std::string told(const msg::Event& event) {
  if (auto* token = std::get_if<msg::Token>(&event.what)) return told(*token);
  if (auto* done = std::get_if<msg::Done>(&event.what))
    return "done " + std::to_string(done->prompt_tokens) + "+" + std::to_string(done->completion_tokens) + " finish " +
           std::to_string(int(done->finish)) + " stop " + std::to_string(done->stop_id);
  if (auto* failed = std::get_if<msg::Failed>(&event.what))
    return std::string(base::name(failed->status.code)) + ": " + failed->status.text;
  std::string text = "outputs";
  for (auto& tensor : std::get<msg::Outputs>(event.what).tensors)
    for (size_t i = 0; i + 4 <= tensor.data.size(); i += 4) {
      float value;
      std::memcpy(&value, tensor.data.data() + i, 4);
      text += " " + std::to_string(value);
    }
  return text;
}

class Reference {
 public:
  Reference(const msg::Generation& params, const msg::TextSpec& text, uint32_t limit, uint32_t adapter = 0)
      : params_(params), limit_(limit), hashes_{1 + adapter} {
    tokens_.assign(params.history.begin(), params.history.end());
    tokens_.insert(tokens_.end(), params.append.begin(), params.append.end());
    for (auto token : tokens_) words_.push_back(token);
    for (auto images : {params.history_images, std::span<const msg::Image>(params.images)})
      for (auto& image : images)
        for (uint32_t p = image.start + 1; p < image.end - 1; ++p)
          words_[p] = FakeModel::pad_word(FakeModel::feature(image.data.view(), p - image.start - 1));
    ignore_eos_ = params.ignore_eos;
    (void)text;
  }

  // The tokens that it makes, whatever else runs; `tokens` is the sequence at its end.
  std::vector<std::string> says(uint64_t seed = 0);
  std::vector<uint32_t> tokens() const { return tokens_; }

 private:
  uint64_t hash(size_t count) {
    for (; hashes_.size() <= count; hashes_.push_back(mix(hashes_.back(), words_[hashes_.size() - 1]))) {
    }
    return hashes_[count];
  }
  static bool in(const std::vector<msg::PositionRange>& ranges, uint32_t p) {
    for (auto r : ranges)
      if (r.has(p)) return true;
    return false;
  }
  void emit(std::vector<std::string>& out, uint32_t p, bool prefill) {
    bool score = in(params_.logprobs, p), readout = in(params_.readouts, p);
    if (prefill && !score && !readout) return;
    auto details = std::make_shared<msg::TokenDetails>();
    if (score && p > 0) {
      details->has_logprob = true;
      details->logprob = FakeModel::logprob(hash(p), tokens_[p]);
      details->top = FakeModel::best(hash(p), params_.top_logprobs);
    }
    if (readout) details->readout = FakeModel::readout(hash(p + 1));
    out.push_back(told(msg::Token{tokens_[p], p, prefill, score || readout ? details : nullptr}));
  }

  const msg::Generation& params_;
  uint32_t limit_;
  bool ignore_eos_;
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> words_, hashes_;
};

inline std::vector<std::string> Reference::says(uint64_t seed) {
  std::vector<std::string> out;
  auto prompt = uint32_t(tokens_.size());
  if (params_.aim == msg::Aim::kEmbed) {
    std::string text = "outputs";
    for (uint32_t i = 0; i < FakeModel::kHidden; ++i) {
      double sum = 0;
      for (uint32_t p = 0; p < prompt; ++p) sum += double(FakeModel::hidden(hash(p + 1), i));
      text += " " + std::to_string(float(sum / prompt));
    }
    return {text};
  }
  for (uint32_t p = 0; p < prompt; ++p) emit(out, p, true);
  uint32_t made = 0, stop = 0;
  auto finish = msg::Finish::kNone;
  std::unique_ptr<FakeConstraint> form;
  if (params_.constraint) form = static_cast<const FakeConstraint&>(*params_.constraint).fresh();
  while (finish == msg::Finish::kNone) {
    if (made == params_.max_tokens || tokens_.size() >= limit_) {
      finish = msg::Finish::kLength;
      break;
    }
    auto id = FakeModel::draw(hash(tokens_.size()), params_, params_.sampling.seed.value_or(seed), made,
                              made < params_.min_tokens, form.get());
    tokens_.push_back(id), words_.push_back(id);
    ++made;
    emit(out, uint32_t(tokens_.size() - 1), false);
    bool among = std::find(params_.stop_ids.begin(), params_.stop_ids.end(), id) != params_.stop_ids.end();
    if (id == FakeModel::kEos && !ignore_eos_)
      finish = msg::Finish::kEos, stop = id;
    else if (among)
      finish = msg::Finish::kStopId, stop = id;
    else if (form && (base::check(form->accept(id), "a token that fits is taken"), form->complete()))
      finish = msg::Finish::kEos, stop = id;
  }
  out.push_back(told({msg::Done{prompt, 0, made, finish, stop}}));
  return out;
}

}  // namespace weir::generation
