// The names of the library `tokenizers` that the callers of this room use.
#pragma once

#include "tokenizers/decode_stream.h"
#include "tokenizers/tokenizer.h"

namespace weir::text {

using tokenizers::AddSpecial;
using tokenizers::DecodeStream;
using tokenizers::SkipSpecial;
using tokenizers::Tokenizer;

}  // namespace weir::text
