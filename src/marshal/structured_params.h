// The parameters that give a completion its form (structured_params.cc has their grammar).
#pragma once

#include <optional>

#include "marshal/field_reader.h"
#include "marshal/generation_params.h"
#include "msg/token_constraint.h"

namespace weir::marshal {

inline constexpr size_t kMaxForm = size_t(256) << 10;  // bytes of a schema, a grammar, or a choice
inline constexpr size_t kMaxFormChoices = 4096;

// Reads the value of a row whose member is GenerationParams::structured; null and "" ask for nothing. Whether the form
// can be held to is for msg::TextCodec::compile() to say. False where it is refused: two forms in one request, too.
bool read_structured(FieldReader& reader, const ParamRow& row, std::optional<msg::StructuredOutput>& out);

}  // namespace weir::marshal
