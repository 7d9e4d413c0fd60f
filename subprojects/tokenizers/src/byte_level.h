// The spelling of bytes in byte-level BPE: each byte is one character, printable Latin-1 as itself, the others from
// U+0100 on (0x20 -> "Ġ"). The table is that of GPT-2's encoder and of every byte-level tokenizer.json since.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tokenizers {

// "Ġthe" -> " the"; nothing when a character stands for no byte. `spelled` is valid UTF-8.
std::optional<std::string> bytes_of_spelling(std::string_view spelled);

}  // namespace tokenizers
