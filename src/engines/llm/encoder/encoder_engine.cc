#include "engines/llm/encoder/encoder_engine.h"

#include <cstring>
#include <utility>

#include "sched/fit.h"

namespace weir::llm {
namespace {

using base::Status;

enum Input : size_t { kIds, kMask, kTypes };

// One of a Call's inputs, element by element; what is not there is `otherwise`.
class Numbers {
 public:
  Numbers(const msg::Tensor* tensor, int64_t otherwise) : tensor_(tensor), otherwise_(otherwise) {}

  explicit operator bool() const { return tensor_ != nullptr; }
  int64_t operator[](size_t i) const {
    if (!tensor_) return otherwise_;
    if (tensor_->dtype == msg::DType::kInt32) return at<int32_t>(i);
    return at<int64_t>(i);
  }

 private:
  template <class T>
  int64_t at(size_t i) const {
    T value;
    std::memcpy(&value, tensor_->data.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  const msg::Tensor* tensor_;
  int64_t otherwise_;
};

class EncoderEngine final : public sched::Engine {
 public:
  EncoderEngine(msg::ModelSpec spec, std::unique_ptr<Encoder> encoder, EncoderManners manners)
      : spec_(std::move(spec)),
        encoder_(std::move(encoder)),
        limits_(encoder_->limits()),
        manners_(std::move(manners)),
        width_(manners_.classifier ? uint32_t(manners_.classifier->shape().labels.size()) : limits_.hidden),
        state_(manners_.classifier ? limits_.hidden : 0) {
    pack_.pooling = manners_.pooling;
  }

  const msg::ModelSpec& spec() const override { return spec_; }
  Status step(sched::Batch& batch) override;

 private:
  int64_t rows_of(const msg::Call& call) const { return sched::input_of(call, spec_, kIds)->shape[0]; }
  Status read_call(const msg::Call& call);
  Status read_row(size_t begin, size_t end, const Numbers& ids, const Numbers& mask, const Numbers& types);
  Status flush();
  void finish(size_t text, float* out);

  const msg::ModelSpec spec_;
  const std::unique_ptr<Encoder> encoder_;
  const EncoderLimits& limits_;
  const EncoderManners manners_;
  const uint32_t width_;      // floats of a row of each output
  std::vector<float> state_;  // that a classifier looks at

  // Arrays of one step.
  Pack pack_;
  uint32_t taken_ = 0;                  // of limits_.pack_tokens
  std::vector<float*> to_;              // per text of the pack
  ptrdiff_t logits_ = 0;                // of a classifier: how far behind its scores a row's logits are
  std::vector<Pack::Text> call_texts_;  // of the Call that is read
  Pack call_;                           // its tokens; positions and types as in the pack
};

// A bad Call fails alone: its rows stay zeros.
Status EncoderEngine::step(sched::Batch& batch) {
  int64_t rows = 0;
  for (const auto* call : batch.calls) rows += rows_of(*call);
  const size_t bytes = size_t(rows) * width_ * sizeof(float), outputs = spec_.outputs.size();
  base::Block out(base::heap_slab(outputs * bytes));
  std::memset(out.data(), 0, outputs * bytes);
  logits_ = ptrdiff_t(rows) * width_;
  auto* row = reinterpret_cast<float*>(out.data());
  pack_.clear(), to_.clear();
  taken_ = 0;
  for (size_t c = 0; c < batch.calls.size(); ++c) {
    Status status = read_call(*batch.calls[c]);
    if (!status.ok()) {
      if (batch.failures.empty()) batch.failures.resize(batch.calls.size());
      batch.failures[c] = std::move(status);
      row += rows_of(*batch.calls[c]) * width_;
      continue;
    }
    for (const auto& text : call_.texts) {
      const uint32_t takes = EncoderLimits::taken(text.count);
      if (taken_ + takes > limits_.pack_tokens)
        if (auto s = flush(); !s.ok()) return s;
      pack_.texts.push_back({uint32_t(pack_.ids.size()), text.count});
      auto append = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
        to.insert(to.end(), from.begin() + text.first, from.begin() + text.first + text.count);
      };
      append(call_.ids, pack_.ids), append(call_.positions, pack_.positions), append(call_.types, pack_.types);
      taken_ += takes;
      to_.push_back(std::exchange(row, row + width_));
    }
  }
  if (auto s = flush(); !s.ok()) return s;
  out.resize(outputs * bytes);
  const base::Bytes all = out.freeze();
  batch.outputs.resize(outputs);
  for (size_t i = 0; i < outputs; ++i)
    batch.outputs[i] = {spec_.outputs[i].name, msg::DType::kFp32, {rows, int64_t(width_)}, all.slice(i * bytes, bytes)};
  return {};
}

Status EncoderEngine::flush() {
  if (pack_.texts.empty()) return {};
  if (auto s = encoder_->run(pack_); !s.ok()) return s;
  for (size_t t = 0; t < pack_.texts.size(); ++t) finish(t, to_[t]);
  pack_.clear(), to_.clear();
  taken_ = 0;
  return {};
}

void EncoderEngine::finish(size_t text, float* out) {
  if (!manners_.classifier) return embed(*encoder_, pack_, text, manners_.scale, out);
  embed(*encoder_, pack_, text, Scale::kAsItIs, state_.data());
  manners_.classifier->run(state_, out, out + logits_);
}

Status EncoderEngine::read_call(const msg::Call& call) {
  call_.clear();
  const msg::Tensor* inputs[3] = {};
  for (size_t i = 0; i < spec_.inputs.size(); ++i) inputs[i] = sched::input_of(call, spec_, i);
  for (const auto* other : {inputs[kMask], inputs[kTypes]})
    if (other && !(other->shape == inputs[kIds]->shape))
      return base::invalid("input '" + other->name + "' has shape " + other->shape.text() + ", 'input_ids' has " +
                           inputs[kIds]->shape.text());
  const auto length = size_t(inputs[kIds]->shape[1]);
  const Numbers ids(inputs[kIds], 0), mask(inputs[kMask], 1), types(inputs[kTypes], 0);
  for (size_t row = 0; row < size_t(rows_of(call)); ++row)
    if (auto s = read_row(row * length, (row + 1) * length, ids, mask, types); !s.ok())
      return base::failure(s.code, "row " + std::to_string(row) + ": " + s.text);
  return {};
}

Status EncoderEngine::read_row(size_t begin, size_t end, const Numbers& ids, const Numbers& mask,
                               const Numbers& types) {
  Pack::Text text{uint32_t(call_.ids.size()), 0};
  if (!mask && manners_.pad_id)
    while (end > begin && ids[end - 1] == int64_t(*manners_.pad_id)) --end;
  for (size_t i = begin; i < end; ++i) {
    if (mask[i] == 0) continue;
    const int64_t id = ids[i], type = types[i];
    const size_t place = limits_.places == Places::kInRow ? i - begin : text.count;
    if (id < 0 || id >= limits_.vocabulary)
      return base::invalid("token id " + std::to_string(id) + " is not in the vocabulary of " +
                           std::to_string(limits_.vocabulary));
    if (type != 0 && (type < 0 || type >= limits_.types))
      return base::invalid("token type " + std::to_string(type) + " is not below " + std::to_string(limits_.types));
    if (place >= limits_.max_length)
      return base::failure(base::Code::kOutOfRange,
                           "more than the " + std::to_string(limits_.max_length) + " tokens that the model takes");
    call_.ids.push_back(uint32_t(id)), call_.types.push_back(uint32_t(type));
    call_.positions.push_back(limits_.first_position + uint32_t(place));
    ++text.count;
  }
  if (text.count == 0) return base::invalid("no token that is not masked");
  call_.texts.push_back(text);
  return {};
}

}  // namespace

void describe_encoder(const EncoderLimits& limits, const EncoderManners& manners, msg::ModelSpec& spec) {
  auto input = [](const char* name, bool optional) {
    msg::TensorSpec out{name, msg::DType::kInt64, {-1}, optional, {}};
    out.second_dtype = msg::DType::kInt32;
    return out;
  };
  spec.inputs = {input("input_ids", false), input("attention_mask", true)};
  if (limits.types > 0) spec.inputs.push_back(input("token_type_ids", true));
  if (manners.classifier) {
    const auto& labels = manners.classifier->shape().labels;
    spec.outputs = {{"scores", msg::DType::kFp32, {int64_t(labels.size())}, false, labels},
                    {"logits", msg::DType::kFp32, {int64_t(labels.size())}, false, labels}};
  } else {
    spec.outputs = {{"sentence_embedding", msg::DType::kFp32, {int64_t(limits.hidden)}, false, {}}};
  }
  spec.ragged = true;
}

std::unique_ptr<sched::Engine> make_encoder_engine(msg::ModelSpec spec, std::unique_ptr<Encoder> encoder,
                                                   EncoderManners manners) {
  return std::make_unique<EncoderEngine>(std::move(spec), std::move(encoder), std::move(manners));
}

}  // namespace weir::llm
