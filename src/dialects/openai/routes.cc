#include "dialects/openai/routes.h"

#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/uploads.h"
#include "dialects/openai/chats/chats.h"
#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/generate/generate.h"
#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/responses/compaction.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/scores/scores.h"

namespace weir::openai {
namespace {

using wire::Permission;

constexpr RouteRow kPrefixed[] = {
    {"POST", "/chat/completions", chat_completions, Permission::kInfer},
    {"GET", "/chat/completions", chats::list, Permission::kInfer},
    {"GET", "/chat/completions/{completion}", chats::show, Permission::kInfer},
    {"POST", "/chat/completions/{completion}", chats::update, Permission::kInfer},
    {"DELETE", "/chat/completions/{completion}", chats::forget, Permission::kInfer},
    {"GET", "/chat/completions/{completion}/messages", chats::list_messages, Permission::kInfer},
    {"POST", "/completions", completions, Permission::kInfer},
    {"POST", "/embeddings", embeddings, Permission::kInfer},
    {"POST", "/rerank", scores::rerank, Permission::kInfer},
    {"POST", "/reranking", scores::rerank, Permission::kInfer},
    {"POST", "/score", scores::score, Permission::kInfer},
    {"POST", "/responses", responses::create, Permission::kInfer},
    {"POST", "/responses/input_tokens", responses::count_input, Permission::kInfer},
    {"GET", "/responses/{response}", responses::show, Permission::kInfer},
    {"DELETE", "/responses/{response}", responses::forget, Permission::kInfer},
    {"POST", "/responses/{response}/cancel", responses::cancel, Permission::kInfer},
    {"GET", "/responses/{response}/input_items", responses::list_input_items, Permission::kInfer},
    {"POST", "/responses/compact", responses::compact, Permission::kInfer},
    {"POST", "/conversations", conversations::create, Permission::kInfer},
    {"GET", "/conversations/{conversation}", conversations::show, Permission::kInfer},
    {"POST", "/conversations/{conversation}", conversations::update, Permission::kInfer},
    {"DELETE", "/conversations/{conversation}", conversations::forget, Permission::kInfer},
    {"POST", "/conversations/{conversation}/items", conversations::add_items, Permission::kInfer},
    {"GET", "/conversations/{conversation}/items", conversations::list_items, Permission::kInfer},
    {"GET", "/conversations/{conversation}/items/{item}", conversations::show_item, Permission::kInfer},
    {"DELETE", "/conversations/{conversation}/items/{item}", conversations::delete_item, Permission::kInfer},
    {"GET", "/files", batches::list_files, Permission::kInfer},
    {"GET", "/files/{file}", batches::show_file, Permission::kInfer},
    {"GET", "/files/{file}/content", batches::file_content, Permission::kInfer},
    {"DELETE", "/files/{file}", batches::delete_file, Permission::kInfer},
    {"POST", "/uploads", batches::create_upload, Permission::kInfer},
    {"POST", "/uploads/{upload}/complete", batches::complete_upload, Permission::kInfer},
    {"POST", "/uploads/{upload}/cancel", batches::cancel_upload, Permission::kInfer},
    {"POST", "/batches", batches::create_batch, Permission::kInfer},
    {"GET", "/batches", batches::list_batches, Permission::kInfer},
    {"GET", "/batches/{batch}", batches::show_batch, Permission::kInfer},
    {"POST", "/batches/{batch}/cancel", batches::cancel_batch, Permission::kInfer},
    {"POST", "/load_lora_adapter", load_adapter, Permission::kAdmin},
    {"POST", "/unload_lora_adapter", unload_adapter, Permission::kAdmin},
    {"GET", "/models", list_models, Permission::kRead},
    {"GET", "/models/{model}", show_model, Permission::kRead},
    {"GET", "/models/{owner}/{model}", show_model, Permission::kRead},  // "Qwen/Qwen3-8B", as some clients send it
};
constexpr RouteRow kOfDeployments[] = {
    {"POST", "/chat/completions", chat_completions, Permission::kInfer},
    {"POST", "/completions", completions, Permission::kInfer},
    {"POST", "/embeddings", embeddings, Permission::kInfer},
    {"POST", "/batches", batches::create_batch, Permission::kInfer},
};
constexpr RouteRow kOfOllama[] = {
    {"POST", "/api/chat", ollama::chat, Permission::kInfer},
    {"POST", "/api/generate", ollama::generate, Permission::kInfer},
    {"POST", "/api/embed", ollama::embed, Permission::kInfer},
    {"POST", "/api/embeddings", ollama::embeddings, Permission::kInfer},
    {"GET", "/api/tags", ollama::tags, Permission::kRead},
    {"GET", "/api/ps", ollama::ps, Permission::kRead},
    {"POST", "/api/show", ollama::show, Permission::kRead},
    {"POST", "/api/pull", ollama::pull, Permission::kRead},
    {"GET", "/api/version", ollama::version, Permission::kHealth},
    {"POST", "/api/create", ollama::refuse_change, Permission::kAdmin},
    {"POST", "/api/blobs/{digest}", ollama::refuse_change, Permission::kAdmin},
    {"POST", "/api/copy", ollama::refuse_change, Permission::kAdmin},
    {"POST", "/api/push", ollama::refuse_change, Permission::kAdmin},
    {"DELETE", "/api/delete", ollama::refuse_change, Permission::kAdmin},
};
constexpr RouteRow kOfAnthropic[] = {
    {"POST", "/v1/messages", anthropic::messages, Permission::kInfer},
    {"POST", "/v1/messages/count_tokens", anthropic::count_tokens, Permission::kInfer},
    {"GET", "/v1/messages/batches", anthropic::list_batches, Permission::kInfer},
    {"GET", "/v1/messages/batches/{batch}", anthropic::show_batch, Permission::kInfer},
    {"DELETE", "/v1/messages/batches/{batch}", anthropic::delete_batch, Permission::kInfer},
    {"GET", "/v1/messages/batches/{batch}/results", anthropic::batch_results, Permission::kInfer},
    {"POST", "/v1/messages/batches/{batch}/cancel", anthropic::cancel_batch, Permission::kInfer},
};
constexpr RouteRow kOfSglang[] = {
    {"POST", "/generate", generate::generate, Permission::kInfer},  // TGI's, too
    {"GET", "/health_generate", generate::health_generate, Permission::kInfer},
    {"GET", "/get_model_info", generate::model_info, Permission::kRead},
    {"GET", "/model_info", generate::model_info, Permission::kRead},
    {"GET", "/get_server_info", generate::server_info, Permission::kRead},
    {"GET", "/server_info", generate::server_info, Permission::kRead},
    {"GET", "/flush_cache", generate::flush_cache, Permission::kAdmin},
    {"POST", "/flush_cache", generate::flush_cache, Permission::kAdmin},
};
constexpr RouteRow kOfTgi[] = {
    {"POST", "/generate_stream", generate::generate_stream, Permission::kInfer},
    {"POST", "/invocations", generate::invocations, Permission::kInfer},
    {"GET", "/info", generate::info, Permission::kRead},
};
constexpr RouteRow kOfLlama[] = {
    {"POST", "/completion", llama_cpp::completion, Permission::kInfer},
    {"POST", "/completions", llama_cpp::completion, Permission::kInfer},
    {"POST", "/infill", llama_cpp::infill, Permission::kInfer},
    {"POST", "/apply-template", llama_cpp::apply_template, Permission::kInfer},
    {"POST", "/embedding", llama_embedding, Permission::kInfer},
    {"POST", "/embeddings", llama_embedding, Permission::kInfer},
    {"POST", "/reranking", scores::rerank, Permission::kInfer},
    {"GET", "/props", llama_cpp::props, Permission::kRead},
    {"GET", "/slots", llama_cpp::slots, Permission::kMetrics},
    {"POST", "/slots/{slot}", llama_cpp::slot_action, Permission::kInfer},
    {"GET", "/lora-adapters", llama_cpp::lora_adapters, Permission::kRead},
    {"POST", "/lora-adapters", llama_cpp::set_lora_adapters, Permission::kInfer},
};
constexpr RouteRow kUnprefixed[] = {
    {"POST", "/chat/completions", chat_completions, Permission::kInfer},  // llama.cpp has these without a prefix
    {"POST", "/responses", responses::create, Permission::kInfer},
    {"POST", "/responses/input_tokens", responses::count_input, Permission::kInfer},
    {"GET", "/models", list_models, Permission::kRead},
    {"POST", "/tokenize", tokenize, Permission::kInfer},
    {"POST", "/detokenize", detokenize, Permission::kInfer},
    {"GET", "/tokenizer_info", tokenizer_info, Permission::kRead},
    {"GET", "/load", load, Permission::kMetrics},
    {"GET", "/version", version, Permission::kHealth},
    {"GET", "/health", health, Permission::kHealth},
    {"GET", "/v1/health", health, Permission::kHealth},
    {"GET", "/ping", health, Permission::kHealth},
    {"POST", "/ping", health, Permission::kHealth},
    {"POST", "/pooling", pooling, Permission::kInfer},
    {"POST", "/embed", embed_lists, Permission::kInfer},
    {"POST", "/v1/embed", cohere_embed_v1, Permission::kInfer},
    {"POST", "/v2/embed", cohere_embed, Permission::kInfer},
    {"POST", "/rerank", scores::rerank, Permission::kInfer},
    {"POST", "/v2/rerank", scores::cohere_rerank, Permission::kInfer},
    {"POST", "/score", scores::score, Permission::kInfer},
    {"POST", "/classify", scores::classify, Permission::kInfer},
    {"POST", "/generative_scoring", scores::generative, Permission::kInfer},
};

}  // namespace

const std::span<const RouteRow> kUnderPrefix = kPrefixed, kDeploymentRows = kOfDeployments, kAtRoot = kUnprefixed,
                                kOllamaRows = kOfOllama, kAnthropicRows = kOfAnthropic, kSglangRows = kOfSglang,
                                kTgiRows = kOfTgi, kLlamaRows = kOfLlama;

}  // namespace weir::openai
