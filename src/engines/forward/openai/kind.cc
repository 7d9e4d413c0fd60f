#include "engines/forward/openai/kind.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "engines/forward/openai/completion_attempt.h"
#include "engines/forward/openai/questions.h"
#include "generation/fit.h"
#include "marshal/generation_config.h"
#include "text/processor.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr size_t kMostConfig = 4 << 20, kMostTokenizer = 256 << 20;
constexpr generation::TokenRoom kAnyRoom{.blocks = 1 << 30, .block_size = 1};  // its keys and values are the origin's

// Empty where there is no such file.
Result<std::string> read_if_there(const std::string& folder, std::string_view name, size_t most) {
  const auto path = std::filesystem::path(folder) / name;
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::string();
  if (status.type() != std::filesystem::file_type::regular)
    return base::invalid(std::string(name) + " is no regular file");
  if (std::filesystem::file_size(path, error) > most || error)
    return base::invalid(std::string(name) + " has more than " + std::to_string(most) + " bytes");
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return failure(Code::kFailedPrecondition, std::string(name) + " cannot be read");
  return text;
}

Result<std::shared_ptr<const msg::TextSpec>> read_text(const Options& options, const std::string& folder) {
  const std::pair<const char*, size_t> kFiles[] = {{"tokenizer.json", kMostTokenizer},
                                                   {"tokenizer_config.json", kMostConfig},
                                                   {"chat_template.jinja", kMostConfig},
                                                   {"generation_config.json", kMostConfig}};
  std::string files[std::size(kFiles)];
  for (size_t i = 0; i < std::size(kFiles); ++i) {
    auto text = read_if_there(folder, kFiles[i].first, kFiles[i].second);
    if (!text) return text.error();
    files[i] = std::move(*text);
  }
  if (files[0].empty())
    return failure(Code::kNotFound,
                   "there is no tokenizer.json: parameter 'tokenizer' names the folder of the model's tokenizer");
  auto processor = text::make_processor(files[0], files[1], files[2], options.tool_format);
  if (!processor) return processor.error();
  auto spec = std::make_shared<msg::TextSpec>();
  spec->vocabulary = (*processor)->tokenizer->size();
  if (auto s = marshal::read_generation_config(files[3], *spec); !s.ok()) return s;
  const auto eos = (*processor)->tokenizer->id((*processor)->eos);
  if (spec->eos_ids.empty() && eos) spec->eos_ids.push_back(*eos);
  spec->codec = *std::move(processor);
  return spec;
}

Status cannot(std::string_view what) {
  return failure(Code::kUnimplemented, std::string(what) + " cannot be had of a forwarded model");
}

class Openai final : public Kind {
 public:
  explicit Openai(std::shared_ptr<const msg::TextSpec> text) : text_(std::move(text)) {}

  net::ClientConn::Http http() const override { return net::ClientConn::Http::k1; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return make_completion_attempt(asked, receiver);
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return make_openai_questions(shard, conn, options, text_);
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override;

 private:
  const std::shared_ptr<const msg::TextSpec> text_;
};

Status Openai::fits(const msg::Call& call, const msg::ModelSpec& spec) const {
  if (auto status = generation::fits_tokens(call, spec, kAnyRoom); !status.ok()) return status;
  const msg::Generation& params = *call.generation;
  if (params.aim == msg::Aim::kRelease) return {};
  if (params.aim == msg::Aim::kEmbed) return cannot("an embedding");
  if (params.constraint) return cannot("a form of the answer (structured output)");
  if (!params.readouts.empty()) return cannot("a readout");
  const bool of_prompt = std::any_of(params.logprobs.begin(), params.logprobs.end(),
                                     [&](const auto& range) { return range.start < params.length(); });
  if (of_prompt) return cannot("a log-probability of the prompt");
  if (params.max_tokens == 0) return cannot("an answer without tokens");
  return {};
}

}  // namespace

Result<std::shared_ptr<const Kind>> make_openai(const Options& options, const std::string& folder) {
  if (options.tokenizer.empty() && folder.empty())
    return base::invalid("parameter 'tokenizer' is missing: it names the folder of the model's tokenizer.json");
  auto text = read_text(options, options.tokenizer.empty() ? folder : options.tokenizer);
  if (!text) return text.error();
  return std::make_shared<Openai>(*std::move(text));
}

}  // namespace weir::forward
