// Requests for embeddings in other APIs' forms, each read as one of OpenAI's:
//   /embed               of Text Embeddings Inference: `inputs`, `normalize` (true by default), `truncate`
//   /v1/embed, /v2/embed of Cohere: `texts` (or `inputs` with content), `embedding_types`, `truncate`, `input_type`
//   /embedding           of llama.cpp: `content` (or `input`), `embd_normalize` (2 by default: length 1; -1: as they
//   are)
// Reference: huggingface.github.io/text-embeddings-inference, docs.cohere.com/reference/embed.
#include <algorithm>
#include <array>

#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/translation.h"

namespace weir::openai {
namespace {

constexpr std::array<RenamedMember, 2> kInputsNames{{{"inputs", "input"}, {"inputs[]", "input[]"}}};
constexpr std::array<RenamedMember, 2> kContentNames{{{"content", "input"}, {"content[]", "input[]"}}};
constexpr std::array<RenamedMember, 4> kCohereNames{{{"texts", "input"},
                                                     {"texts[]", "input[]"},
                                                     {"output_dimension", "dimensions"},
                                                     {"max_tokens", "truncate_prompt_tokens"}}};

struct NamedType {
  std::string_view name;
  EmbeddingType type;
};
constexpr std::array<NamedType, 4> kTypes{{{"float", EmbeddingType::kFloat},
                                           {"base64", EmbeddingType::kBase64},
                                           {"binary", EmbeddingType::kBinary},
                                           {"ubinary", EmbeddingType::kUbinary}}};

constexpr std::string_view kListsMembers[] = {"model",    "inputs",      "dimensions",          "normalize",
                                              "truncate", "prompt_name", "truncation_direction"};
constexpr std::string_view kLlamaMembers[] = {"model", "content", "input", "embd_normalize"};
constexpr std::string_view kCohereMembers[] = {
    "model",           "texts",    "images",     "inputs",           "input_type",
    "embedding_types", "truncate", "max_tokens", "output_dimension", "priority"};

ApiError read_lists(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    if (member(object, "prompt_name")) return refuse("prompt_name", "prompt_name: not offered");
    if (const OrderedJson* end = member(object, "truncation_direction"); end && *end != "Right" && *end != "right")
      return refuse("truncation_direction", "truncation_direction: takes Right");
    ignore_unknown(object, {{}, kListsMembers, {}}, out);
    OrderedJson translated = OrderedJson::object();
    carry(object, "model", translated, "model");
    carry(object, "inputs", translated, "input");
    carry(object, "dimensions", translated, "dimensions");
    out.names = kInputsNames;
    out.embedding_form = EmbeddingForm::kLists;
    const OrderedJson* normalize = member(object, "normalize");
    out.unit_length = !normalize || normalize->get<bool>();
    if (const OrderedJson* cut = member(object, "truncate")) out.cut_to_context = cut->get<bool>();
    return read_translated(translated, Kind::kEmbedding, out);
  });
}

ApiError read_llama(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    constexpr int kLengthOne = 2, kAsTheyAre = -1;
    const OrderedJson* normalize = member(object, "embd_normalize");
    if (normalize && *normalize != kLengthOne && *normalize != kAsTheyAre)
      return refuse("embd_normalize", "embd_normalize: takes 2 (length 1) and -1 (as they are)");
    ignore_unknown(object, {{}, kLlamaMembers, {}}, out);
    OrderedJson translated = OrderedJson::object();
    const bool content = member(object, "content") != nullptr;
    carry(object, "model", translated, "model");
    carry(object, content ? "content" : "input", translated, "input");
    if (content) out.names = kContentNames;
    out.embedding_form = EmbeddingForm::kLlamaCpp;
    out.unit_length = !normalize || *normalize == kLengthOne;
    return read_translated(translated, Kind::kEmbedding, out);
  });
}

// The text of an input's content: its parts, which must be texts.
ApiError read_content(const OrderedJson& input, size_t at, OrderedJson& out) {
  return read_at("inputs", at, [&]() -> ApiError {
    std::string text;
    for (const OrderedJson& part : input.at("content")) {
      if (part.at("type") != "text")
        return refuse("inputs", "inputs[" + std::to_string(at) + "]: only texts are embedded here");
      text += part.at("text").get<std::string>();
    }
    out.push_back(std::move(text));
    return {};
  });
}

ApiError read_texts(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* images = member(body, "images");
  if (images && !images->empty()) return refuse("images", "images: only texts are embedded here");
  if (const OrderedJson* texts = member(body, "texts")) {
    const bool strings = texts->is_array() && std::all_of(texts->begin(), texts->end(),
                                                          [](const OrderedJson& one) { return one.is_string(); });
    if (!strings) return refuse("texts", "texts: expected a list of texts");
  }
  carry(body, "texts", out, "input");
  const OrderedJson* inputs = member(body, "inputs");
  if (!inputs) return out.contains("input") ? ApiError{} : refuse("texts", "texts: a list of texts is missing");
  if (!inputs->is_array() || out.contains("input"))
    return refuse("inputs", "inputs: expected a list of objects with content, and no texts beside it");
  OrderedJson& texts = out["input"] = OrderedJson::array();
  for (size_t i = 0; i < inputs->size(); ++i)
    if (ApiError bad = read_content((*inputs)[i], i, texts); !bad.ok()) return bad;
  return {};
}

ApiError read_types(const OrderedJson& types, Request& out) {
  if (!types.is_array() || types.empty())
    return refuse("embedding_types", "embedding_types: expected a list of float, base64, binary, ubinary");
  for (const OrderedJson& type : types) {
    const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const NamedType& t) { return type == t.name; });
    if (known == kTypes.end())
      return refuse("embedding_types", "embedding_types: float, base64, binary and ubinary are offered");
    if (std::find(out.embedding_types.begin(), out.embedding_types.end(), known->type) == out.embedding_types.end())
      out.embedding_types.push_back(known->type);
  }
  return {};
}

// A text that is too long, for the model or for max_tokens, loses its end, or with START its beginning, unless NONE
// says that none is cut.
ApiError read_cut(const OrderedJson& body, bool& cuts, Request& out) {
  const OrderedJson* cut = member(body, "truncate");
  const std::string how = cut ? cut->get<std::string>() : "END";
  if (how != "END" && how != "START" && how != "NONE") return refuse("truncate", "truncate: takes END, START or NONE");
  cuts = how != "NONE";
  out.beginning_goes = how == "START";
  const OrderedJson* most = member(body, "max_tokens");
  if (most && (!most->is_number_unsigned() || *most == 0u))
    return refuse("max_tokens", "max_tokens: expected a whole number, 1 or more");
  return most && how == "NONE" ? refuse("max_tokens", "max_tokens: not with truncate NONE") : ApiError{};
}

ApiError read_cohere(std::string_view body, EmbeddingForm form, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    OrderedJson translated = OrderedJson::object();
    if (ApiError bad = read_texts(object, translated); !bad.ok()) return bad;
    out.names = kCohereNames;
    out.embedding_form = form;
    if (const OrderedJson* types = member(object, "embedding_types")) {
      if (ApiError bad = read_types(*types, out); !bad.ok()) return bad;
      if (form == EmbeddingForm::kCohereFloats) out.embedding_form = EmbeddingForm::kCohereTyped;
    }
    bool cuts = true;
    if (ApiError bad = read_cut(object, cuts, out); !bad.ok()) return bad;
    ignore_unknown(object, {{}, kCohereMembers, {}}, out);
    carry(object, "model", translated, "model");
    carry(object, "priority", translated, "priority");
    carry(object, "output_dimension", translated, "dimensions");
    carry(object, "max_tokens", translated, "truncate_prompt_tokens");
    ApiError bad = read_translated(translated, Kind::kEmbedding, out);
    out.cut_to_context = cuts;  // beside max_tokens, too
    return bad;
  });
}

}  // namespace

void embed_lists(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(state, exchange, read_lists, embed_request);
}

void llama_embedding(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(state, exchange, read_llama, embed_request);
}

void cohere_embed_v1(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  const auto read = [](std::string_view body, Request& out) {
    return read_cohere(body, EmbeddingForm::kCohereFloats, out);
  };
  read_document<Request>(state, exchange, read, embed_request);
}

void cohere_embed(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  const auto read = [](std::string_view body, Request& out) { return read_cohere(body, EmbeddingForm::kCohere, out); };
  read_document<Request>(state, exchange, read, embed_request);
}

}  // namespace weir::openai
