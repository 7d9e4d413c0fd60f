// The parts of a tokenizer.json around its vocabulary: how text is normalized and cut, how pieces become text again,
// and what is put around a text. Each reader knows the types it supports by name and refuses the others.
#pragma once

#include "text/json_fields.h"
#include "text/tokenizer_parts.h"

namespace weir::text {

void read_normalizer(const JsonFields& fields, Normalizer& out);
// True when its last step is ByteLevel: the vocabulary spells bytes.
bool read_pre_tokenizer(const JsonFields& fields, PreTokenizer& out);
void read_decoder(const JsonFields& fields, Decoder& out);
void read_post_processor(const JsonFields& fields, std::vector<uint32_t>& prefix, std::vector<uint32_t>& suffix);

}  // namespace weir::text
