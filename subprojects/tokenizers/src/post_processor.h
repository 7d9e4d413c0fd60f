// PostProcessor: the ids that are put around a text, or around and between two, when special tokens are asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

struct PostProcessor {
  std::vector<uint32_t> prefix, suffix;  // of one text

  PairTemplate pair;  // of two; empty, or each of them is in it once
};

}  // namespace tokenizers
