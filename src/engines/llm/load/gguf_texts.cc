#include "engines/llm/load/gguf_texts.h"

#include "engines/llm/load/gguf_encoders.h"

namespace weir::llm {

base::Result<GgufTexts> texts_of(const GgufModel& model) {
  GgufTexts out;
  for (auto [read, text] : {std::pair{&config_of, &out.config}, std::pair{&tokenizer_of, &out.tokenizer},
                            std::pair{&tokenizer_config_of, &out.tokenizer_config}}) {
    auto said = read(model.gguf);
    if (!said) return base::failure(said.error().code, "'" + model.parts.front().name + "': " + said.error().text);
    *text = std::move(*said);
  }
  if (is_gguf_encoder(model.gguf)) out.embedding = embedding_of(model.gguf);
  return out;
}

}  // namespace weir::llm
