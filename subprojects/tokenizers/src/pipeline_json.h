// Readers of the parts of a tokenizer.json beside its model: normalizer, pre_tokenizer, decoder, post_processor. Each
// reader knows the types that it supports by name and refuses the others.
#pragma once

#include "json_fields.h"
#include "pipeline.h"

namespace tokenizers {

void read_normalizer(const JsonFields& fields, Normalizer& out);
// True when its last step is ByteLevel: the vocabulary spells bytes.
bool read_pre_tokenizer(const JsonFields& fields, PreTokenizer& out);
void read_decoder(const JsonFields& fields, Decoder& out);
void read_post_processor(const JsonFields& fields, PostProcessor& out);  // post_processor_json.cc

// For all readers.
inline constexpr int kMaxDepth = 16;  // sequences in sequences
std::string_view type_of(const JsonFields& fields);
void refuse(const JsonFields& fields, std::string_view type);

}  // namespace tokenizers
