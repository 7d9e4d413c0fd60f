#include "dialects/openai/routes.h"

#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/uploads.h"
#include "dialects/openai/chats/chats.h"
#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/count.h"
#include "dialects/openai/generate/generate.h"
#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/responses/compaction.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/scores/scores.h"

namespace weir::openai {
namespace {

using wire::Permission;

// llama.cpp has chats, responses and models without a prefix, too.
constexpr RouteRow kOfOpenAi[] = {
    {"POST", "/chat/completions", chat_completions, Permission::kInfer, kUnderPrefix | kAtRoot | kUnderDeployment},
    {"GET", "/chat/completions", chats::list, Permission::kInfer, kUnderPrefix},
    {"GET", "/chat/completions/{completion}", chats::show, Permission::kInfer, kUnderPrefix},
    {"POST", "/chat/completions/input_tokens", count_chat, Permission::kInfer, kUnderPrefix | kAtRoot},  // llama.cpp's
    {"POST", "/chat/completions/{completion}", chats::update, Permission::kInfer, kUnderPrefix},
    {"DELETE", "/chat/completions/{completion}", chats::forget, Permission::kInfer, kUnderPrefix},
    {"GET", "/chat/completions/{completion}/messages", chats::list_messages, Permission::kInfer, kUnderPrefix},
    {"POST", "/completions", completions, Permission::kInfer, kUnderPrefix | kUnderDeployment},
    {"POST", "/embeddings", embeddings, Permission::kInfer, kUnderPrefix | kUnderDeployment},
    {"POST", "/rerank", scores::rerank, Permission::kInfer, kUnderPrefix | kAtRoot},
    {"POST", "/reranking", scores::rerank, Permission::kInfer, kUnderPrefix},
    {"POST", "/score", scores::score, Permission::kInfer, kUnderPrefix | kAtRoot},
    {"POST", "/responses", responses::create, Permission::kInfer, kUnderPrefix | kAtRoot},
    {"POST", "/responses/input_tokens", responses::count_input, Permission::kInfer, kUnderPrefix | kAtRoot},
    {"GET", "/responses/{response}", responses::show, Permission::kInfer, kUnderPrefix},
    {"DELETE", "/responses/{response}", responses::forget, Permission::kInfer, kUnderPrefix},
    {"POST", "/responses/{response}/cancel", responses::cancel, Permission::kInfer, kUnderPrefix},
    {"GET", "/responses/{response}/input_items", responses::list_input_items, Permission::kInfer, kUnderPrefix},
    {"POST", "/responses/compact", responses::compact, Permission::kInfer, kUnderPrefix},
    {"POST", "/conversations", conversations::create, Permission::kInfer, kUnderPrefix},
    {"GET", "/conversations/{conversation}", conversations::show, Permission::kInfer, kUnderPrefix},
    {"POST", "/conversations/{conversation}", conversations::update, Permission::kInfer, kUnderPrefix},
    {"DELETE", "/conversations/{conversation}", conversations::forget, Permission::kInfer, kUnderPrefix},
    {"POST", "/conversations/{conversation}/items", conversations::add_items, Permission::kInfer, kUnderPrefix},
    {"GET", "/conversations/{conversation}/items", conversations::list_items, Permission::kInfer, kUnderPrefix},
    {"GET", "/conversations/{conversation}/items/{item}", conversations::show_item, Permission::kInfer, kUnderPrefix},
    {"DELETE", "/conversations/{conversation}/items/{item}", conversations::delete_item, Permission::kInfer,
     kUnderPrefix},
    {"GET", "/files", batches::list_files, Permission::kInfer, kUnderPrefix},
    {"GET", "/files/{file}", batches::show_file, Permission::kInfer, kUnderPrefix},
    {"GET", "/files/{file}/content", batches::file_content, Permission::kInfer, kUnderPrefix},
    {"DELETE", "/files/{file}", batches::delete_file, Permission::kInfer, kUnderPrefix},
    {"POST", "/uploads", batches::create_upload, Permission::kInfer, kUnderPrefix},
    {"POST", "/uploads/{upload}/complete", batches::complete_upload, Permission::kInfer, kUnderPrefix},
    {"POST", "/uploads/{upload}/cancel", batches::cancel_upload, Permission::kInfer, kUnderPrefix},
    {"POST", "/batches", batches::create_batch, Permission::kInfer, kUnderPrefix | kUnderDeployment},
    {"GET", "/batches", batches::list_batches, Permission::kInfer, kUnderPrefix},
    {"GET", "/batches/{batch}", batches::show_batch, Permission::kInfer, kUnderPrefix},
    {"POST", "/batches/{batch}/cancel", batches::cancel_batch, Permission::kInfer, kUnderPrefix},
    {"POST", "/load_lora_adapter", load_adapter, Permission::kAdmin, kUnderPrefix},
    {"POST", "/unload_lora_adapter", unload_adapter, Permission::kAdmin, kUnderPrefix},
    {"GET", "/models", list_models, Permission::kRead, kUnderPrefix | kAtRoot},
    {"GET", "/models/{model}", show_model, Permission::kRead, kUnderPrefix},
    // "Qwen/Qwen3-8B", as some clients send it.
    {"GET", "/models/{owner}/{model}", show_model, Permission::kRead, kUnderPrefix},
    {"POST", "/tokenize", tokenize, Permission::kInfer, kAtRoot},
    {"POST", "/detokenize", detokenize, Permission::kInfer, kAtRoot},
    {"GET", "/tokenizer_info", tokenizer_info, Permission::kRead, kAtRoot},
    {"GET", "/load", load, Permission::kMetrics, kAtRoot},
    {"GET", "/version", version, Permission::kHealth, kAtRoot},
    {"GET", "/health", health, Permission::kHealth, kAtRoot},
    {"GET", "/v1/health", health, Permission::kHealth, kAtRoot},
    {"GET", "/ping", health, Permission::kHealth, kAtRoot},
    {"POST", "/ping", health, Permission::kHealth, kAtRoot},
    {"POST", "/pooling", pooling, Permission::kInfer, kAtRoot},
    {"POST", "/embed", embed_lists, Permission::kInfer, kAtRoot},
    {"POST", "/v1/embed", cohere_embed_v1, Permission::kInfer, kAtRoot},
    {"POST", "/v2/embed", cohere_embed, Permission::kInfer, kAtRoot},
    {"POST", "/v2/rerank", scores::cohere_rerank, Permission::kInfer, kAtRoot},
    {"POST", "/classify", scores::classify, Permission::kInfer, kAtRoot},
    {"POST", "/generative_scoring", scores::generative, Permission::kInfer, kAtRoot},
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
    {"POST", "/", generate::root, Permission::kInfer, 0, "application/json"},  // other bodies are GraphPipe's
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

}  // namespace

const std::span<const RouteRow> kOpenAiRows = kOfOpenAi, kOllamaRows = kOfOllama, kAnthropicRows = kOfAnthropic,
                                kSglangRows = kOfSglang, kTgiRows = kOfTgi, kLlamaRows = kOfLlama;

}  // namespace weir::openai
