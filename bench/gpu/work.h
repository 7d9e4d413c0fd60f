// The requests of a load, and the checks of their answers.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "client.h"

namespace weir::load {

struct RequestSpec {
  enum class Kind : uint8_t {
    kSse,      // POST /v1/completions, a prompt of token ids, streamed
    kGrpc,     // ModelStreamInfer of a text that is as many tokens as it has letters, streamed
    kTensors,  // POST /v2/models/…/infer, `rows` rows of `row_bytes` and one small tensor, which alone comes back
    kEncode,   // the same way `prompt` ids of an encoder, its embedding comes back
    kPost,     // POST `path` of a body from a file, as JSON
    kUnary,    // the gRPC method `path` with a message from a file
  } kind = Kind::kSse;
  std::string model;
  uint32_t prompt = 0, tokens = 0, vocabulary = 0;
  uint32_t rows = 1;
  uint64_t row_bytes = 0;
  double top_p = 0;        // of kSse: draws from that share; 0: the likeliest token
  std::string path, body;  // kPost, kUnary

  bool is_grpc() const { return kind == Kind::kGrpc || kind == Kind::kUnary; }
  bool streams_tokens() const { return kind == Kind::kSse || kind == Kind::kGrpc; }
};

// Makes requests, no two with the same prompt. One thread's.
class Work {
 public:
  Work(RequestSpec spec, uint32_t seed);

  const RequestSpec& spec() const { return spec_; }
  Request next();

 private:
  std::string sse();
  std::string grpc();
  std::string tensors_head();
  std::string encode();

  const RequestSpec spec_;
  std::mt19937 random_;
  std::string head_;        // of every request of tensors or of a file
  std::vector<char> body_;  // and what stands behind it
};

// An answer on its way.
class Reply {
 public:
  // How many tokens a piece of the body completes. What comes after the last one that was asked for counts for nothing.
  uint32_t take(const RequestSpec& spec, std::string_view piece);
  uint32_t tokens() const { return tokens_; }
  uint64_t bytes() const { return bytes_; }
  // The answer says itself that it is none.
  bool refused() const { return refused_; }
  const std::string& begin() const { return begin_; }  // its first bytes, for a complaint

 private:
  uint32_t events();
  uint32_t messages();

  std::string rest_;  // of a frame that is cut
  std::string begin_;
  uint32_t tokens_ = 0;
  uint64_t bytes_ = 0;
  bool refused_ = false;
};

}  // namespace weir::load
