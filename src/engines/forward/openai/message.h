// The messages of OpenAI's completions (/v1/completions) as a client of them has them, with vLLM's extensions for token
// ids; and its list of models. Pure; any thread. What an origin sends is a stranger's: a message is refused at its
// first excess.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"

namespace weir::forward {

// A streamed completion of the Call's sequence and of `generated`, which other origins have made of it: the prompt is
// all of it, and as many tokens fewer are asked for.
base::Bytes write_completion(const msg::Call& call, std::span<const uint32_t> generated, std::string_view model);

// A request for the embedding of the Call's sequence, in base64.
base::Bytes write_embedding_request(const msg::Call& call, std::string_view model);
// Its answer: one tensor, FP32 [hidden_size]. SGLang sends a list of numbers whatever it is asked for. Errors:
// INTERNAL.
base::Result<msg::Outputs> read_embedding(std::string_view json, uint32_t hidden_size);

// The seed with which weir's random numbers begin where those of `seed` are after `draws` of them, so that a seeded
// text goes on as it would have (engines/llm/cpu/sampler.cc: draw n of a seed is mix(mix(seed + g) + (n + 1) g)).
// Whatever other servers draw, they do not repeat what they have drawn.
uint64_t later_seed(uint64_t seed, uint64_t draws);

// A token as the log-probabilities of an answer name it: by id ("token_id:7", or a member `id`), or by its text: its
// bytes, where the origin tells them.
struct NamedToken {
  std::optional<uint32_t> id;
  std::string text;
  float logprob = 0;
};
struct NamedLogprob {
  NamedToken token;
  std::vector<NamedToken> top;
  size_t share = 0;  // bytes of the chunk's text that are the token's (chunk_tokens.h)
};

struct CompletionChunk {
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<NamedLogprob> logprobs;
  std::string finish;  // finish_reason; empty: none yet
  std::optional<uint32_t> prompt_tokens, completion_tokens, cached_tokens, thought_tokens;
  std::optional<base::Status> error;  // an event that tells of one
  std::string thoughts;               // of a chat, before its text
  std::string refusal;                // of a chat, in place of a text of the form that was asked for
  size_t unseen = 0;                  // bytes of a chat's calls of tools: it goes on, though no text comes
  size_t aside = 0;                   // bytes at the front of `text` that no form is held against
};

inline constexpr size_t kMostChunkTokens = 1 << 20, kMostChunkLogprobs = 16 << 10;
inline constexpr size_t kMostTop = 256;             // alternatives of one token
inline constexpr size_t kMostChunkTops = 64 << 10;  // of all tokens of an event
inline constexpr size_t kMostTokenText = 4096;      // bytes

// One event of a stream, which may have as many log-probabilities, kMostChunkLogprobs at most. Errors: INTERNAL, saying
// what is wrong with it.
base::Result<CompletionChunk> read_chunk(std::string_view json, size_t most_logprobs = kMostChunkLogprobs);

struct ListedModel {
  bool found = false;
  uint32_t max_length = 0, embedding_size = 0;  // 0: not told
  bool images = false;                          // it is told to take them
  std::string owner;                            // `owned_by`, by which servers tell what they are
  std::string others;                           // names of those that are there, for errors
};
// Errors: INTERNAL.
base::Result<ListedModel> read_models(std::string_view json, std::string_view model);

}  // namespace weir::forward
