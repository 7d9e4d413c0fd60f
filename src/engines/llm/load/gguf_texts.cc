#include "engines/llm/load/gguf_texts.h"

#include "engines/llm/load/gguf_bert.h"

namespace weir::llm {

base::Result<GgufTexts> texts_of(const GgufModel& model) {
  GgufTexts out;
  if (is_gguf_bert(model.gguf)) {
    const auto* normalized = model.gguf.get<bool>("bert.normalize_embeddings");  // Ollama's
    out.embedding = {number_of(model.gguf, "bert.pooling_type").value_or(0), !normalized || *normalized};
  }
  for (auto [read, text] : {std::pair{&config_of, &out.config}, std::pair{&tokenizer_of, &out.tokenizer},
                            std::pair{&tokenizer_config_of, &out.tokenizer_config}}) {
    auto said = read(model.gguf);
    if (!said) return base::failure(said.error().code, "'" + model.parts.front().name + "': " + said.error().text);
    *text = std::move(*said);
  }
  return out;
}

}  // namespace weir::llm
