#include "engines/forward/tokenizer_files.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "marshal/generation_config.h"
#include "text/processor.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;

constexpr size_t kMostConfig = 4 << 20, kMostTokenizer = 256 << 20;

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

}  // namespace

base::Result<std::shared_ptr<const msg::TextSpec>> read_tokenizer(const Options& options, const std::string& own) {
  const std::string& folder = options.tokenizer.empty() ? own : options.tokenizer;
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

}  // namespace weir::forward
