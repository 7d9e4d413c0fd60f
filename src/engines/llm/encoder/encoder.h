// Encoder: token ids of whole texts -> one hidden state per token, and the sum of those that a text's embedding is of.
//
// Texts lie one after the other without padding. A text's states are the same to the last bit whatever else is in the
// pack.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace weir::llm {

enum class Pooling : uint8_t { kMean, kFirst, kLast };  // of a text's tokens

// Texts that run together. `types` is empty when all are 0.
struct Pack {
  struct Text {
    uint32_t first = 0, count = 0;  // in the arrays below; count > 0
  };
  std::vector<Text> texts;
  std::vector<uint32_t> ids, positions, types;
  Pooling pooling = Pooling::kMean;

  // The tokens of a text whose states its embedding is made of.
  Text pooled(const Text& text) const;
  // All but how they are pooled.
  void clear();
};

// Which position a token has: its place in the row that a client sent, or among the row's tokens that are not masked.
enum class Places : uint8_t { kInRow, kAmongTokens };

// The limits of an Encoder.
struct EncoderLimits {
  uint32_t vocabulary = 0, types = 0;  // ids and types are below these; types 0: it knows none
  uint32_t hidden = 0;
  uint32_t max_length = 0;   // tokens of one text
  uint32_t pack_tokens = 0;  // of one pack, of which a text takes whole sixteens; at least max_length
  uint32_t first_position = 0;
  Places places = Places::kInRow;

  static uint32_t taken(uint32_t tokens) { return (tokens + 15) / 16 * 16; }
};

// One thread at a time.
class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual const EncoderLimits& limits() const = 0;
  // Ids, types and lengths are within the limits. Errors: INTERNAL.
  virtual base::Status run(const Pack& pack) = 0;
  // The sum of the pooled states of a text of the last pack, after the last layer's norm, into `hidden` floats.
  virtual void sum(size_t text, float* out) const = 0;
};

// Encoders whose states are on the host.
class HostEncoder : public Encoder {
 public:
  void sum(size_t text, float* out) const final;

 protected:
  // In run().
  void keep_pooled(const Pack& pack);
  // Writes the state of a token of the last pack; room for a multiple of 16 floats is written to.
  virtual void state(uint32_t token, float* out) const = 0;

 private:
  std::vector<Pack::Text> pooled_;
};

enum class Scale : uint8_t { kAsItIs, kLengthOne };

// The embedding of one text of the last pack, which is `pack`, into `hidden` floats.
void embed(const Encoder& encoder, const Pack& pack, size_t text, Scale scale, float* out);

}  // namespace weir::llm
