#include "dialects/openai/fill_in.h"

#include <algorithm>
#include <utility>

#include "text/completion.h"

namespace weir::openai {
namespace {

// The tokens that models know for filling in, between the texts; which models have them: Qwen Coder and CodeGemma,
// StarCoder, SantaCoder, DeepSeek, Code Llama, Codestral.
struct FillTokens {
  std::string_view prefix, suffix, middle;
};
constexpr FillTokens kFillTokens[] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                      {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                      {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                                      {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                      {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                      {"[PREFIX]", "[SUFFIX]", ""}};

// Those before the name of a repository, and before that of each of its files: Qwen Coder, StarCoder 2, CodeGemma.
struct FileTokens {
  std::string_view repository, file;
};
constexpr FileTokens kFileTokens[] = {
    {"<|repo_name|>", "<|file_sep|>"}, {"<repo_name>", "<file_sep>"}, {"", "<|file_separator|>"}};

// Those of padding, of a repository and of a file.
constexpr std::string_view kEndsOfFilling[] = {"<|fim_pad|>",   "<fim_pad>",   "<fim-pad>",
                                               "<|repo_name|>", "<repo_name>", "<reponame>",
                                               "<|file_sep|>",  "<file_sep>",  "<|file_separator|>"};

bool has_token(const msg::TextCodec& codec, std::string_view text) {
  if (text.empty()) return true;
  const auto ids = codec.encode(text, msg::AddSpecial::kNo);
  return ids.size() == 1 && codec.piece(ids[0]) == text;
}

const FillTokens* fill_tokens(const msg::TextCodec& codec) {
  const auto has_all = [&](const FillTokens& tokens) {
    return has_token(codec, tokens.prefix) && has_token(codec, tokens.suffix) && has_token(codec, tokens.middle);
  };
  const auto* found = std::find_if(std::begin(kFillTokens), std::end(kFillTokens), has_all);
  return found == std::end(kFillTokens) ? nullptr : found;
}

const FileTokens* file_tokens(const msg::TextCodec& codec) {
  const auto has_all = [&](const FileTokens& tokens) {
    return has_token(codec, tokens.repository) && has_token(codec, tokens.file);
  };
  const auto* found = std::find_if(std::begin(kFileTokens), std::end(kFileTokens), has_all);
  return found == std::end(kFileTokens) ? nullptr : found;
}

// The prompt that makes a model write what stands between the two texts. Without a token for the middle it comes behind
// the prefix, and the suffix goes first.
std::string arranged(const FillTokens& tokens, std::string_view prefix, std::string_view suffix) {
  std::string out;
  const auto add = [&](std::string_view token, std::string_view text) { (out += token) += text; };
  if (tokens.middle.empty()) add(tokens.suffix, suffix);
  add(tokens.prefix, prefix);
  if (tokens.middle.empty()) return out;
  add(tokens.suffix, suffix);
  add(tokens.middle, {});
  return out;
}

bool is_inside(std::string_view text, size_t at) { return at < text.size() && (uint8_t(text[at]) & 0xc0) == 0x80; }

// So many bytes of the text at most, cut between characters: its last ones, its first ones.
void keep_last(std::string& text, size_t bytes) {
  size_t at = text.size() - std::min(bytes, text.size());
  while (is_inside(text, at)) ++at;
  text.erase(0, at);
}
void keep_first(std::string& text, size_t bytes) {
  size_t at = std::min(bytes, text.size());
  while (at > 0 && is_inside(text, at)) --at;
  text.erase(at);
}

// The text before the place says more of it: it keeps three quarters, and what the rest does not need.
void cut_around(std::string& prefix, std::string& suffix, double part) {
  const auto bytes = size_t(double(prefix.size() + suffix.size()) * part);
  const size_t rest = std::min(bytes, suffix.size());
  const size_t before = std::min(prefix.size(), std::max(bytes / 4 * 3, bytes - rest));
  keep_last(prefix, before), keep_first(suffix, bytes - before);
}

// The file around the place, in at most so many ids. A text that is too long is tried again in part, where what is not
// cut leaves room for it. All tries together encode a few times the text: each takes at most nine tenths of the time
// before, from the fifth on half of it.
ApiError make_file(const FillTokens& tokens, std::string prefix, const Request& request, const msg::TextSpec& spec,
                   size_t most, std::vector<uint32_t>& out, const msg::TextBudget& budget) {
  constexpr int kTries = 24;
  std::string suffix = request.suffix;
  const auto encode = [&](std::string_view before, std::string_view behind) {
    return text::encode_prompt(*spec.codec, arranged(tokens, before, behind) + request.infill.begun,
                               msg::AddSpecial::kYes, spec.max_length, budget);
  };
  size_t fixed = 0;  // ids of what is not cut
  Overflow overflow{0, spec.max_length};
  for (int i = 0; i < kTries; ++i) {
    auto ids = encode(prefix, suffix);
    if (!ids && ids.error().code != base::Code::kOutOfRange) return {std::move(ids).error(), "input_prefix", {}};
    if (ids && ids->size() <= most) return out = *std::move(ids), ApiError{};
    if (i == 0) {
      auto alone = encode({}, {});
      if (!alone && alone.error().code != base::Code::kOutOfRange)
        return {std::move(alone).error(), "input_prefix", {}};
      if (alone) fixed = alone->size();
      if (fixed > spec.max_length) overflow.tokens = fixed;
      if (!alone || fixed > most) break;
    }
    const double part = ids ? double(most - fixed) / double(ids->size() - fixed) : 0.5;
    cut_around(prefix, suffix, std::min(i < 4 ? 0.9 : 0.5, part));
  }
  return {
      base::failure(base::Code::kOutOfRange, "input_prefix: it does not fit: this model's maximum context length is " +
                                                 std::to_string(spec.max_length) + " tokens"),
      "input_prefix",
      {},
      overflow};
}

// The other files, which stand before this one, in the form that the model knows, or as pieces of text.
std::string beside(const Request::Infill& infill, const FileTokens* tokens) {
  std::string out;
  const auto name = [&](std::string_view file) { ((out += tokens->file) += file) += '\n'; };
  if (tokens && !tokens->repository.empty()) (out += tokens->repository) += "repository\n";
  for (const auto& [file, text] : infill.extra) {
    if (tokens)
      name(file);
    else
      out += "\n\n--- snippet ---\n\n";
    out += text;
  }
  if (tokens) name("file");
  return out;
}

}  // namespace

bool fills_in(const msg::TextCodec& codec) { return fill_tokens(codec) != nullptr; }

ApiError fill_in(std::string_view prefix, std::string_view suffix, const msg::TextSpec& spec, std::string& out) {
  const FillTokens* tokens = fill_tokens(*spec.codec);
  if (!tokens) return refuse("suffix", "suffix: this model has no tokens for filling in");
  out = arranged(*tokens, prefix, suffix);
  return {};
}

void add_fill_ends(const msg::TextSpec& spec, std::vector<uint32_t>& ids) {
  for (std::string_view text : kEndsOfFilling) {
    const auto found = spec.codec->encode(text, msg::AddSpecial::kNo);
    if (found.size() != 1 || found[0] >= spec.vocabulary || spec.codec->piece(found[0]) != text) continue;
    if (std::find(ids.begin(), ids.end(), found[0]) == ids.end()) ids.push_back(found[0]);
  }
}

ApiError make_infill(const Prompt& prefix, const Request& request, const msg::TextSpec& spec, uint32_t room,
                     Sequence& out, const msg::TextBudget& budget) {
  const msg::TextCodec& codec = *spec.codec;
  const FillTokens* tokens = fill_tokens(codec);
  if (!tokens) return refuse("model", "this model has no tokens for filling in");
  const size_t most = spec.max_length - std::min(room, spec.max_length);
  if (ApiError bad = make_file(*tokens, prefix.text, request, spec, most, out.ids, budget); !bad.ok()) return bad;
  if (request.infill.extra.empty()) return {};
  std::string text = beside(request.infill, file_tokens(codec));
  if (!text::check_prompt(text, spec.max_length).ok()) text::cut_prompt(text, spec.max_length, text::Part::kBeginning);
  auto ids = text::encode_prompt(codec, text, msg::AddSpecial::kNo, spec.max_length, budget);
  if (!ids) return {std::move(ids).error(), "input_extra", {}};
  const auto marks = codec.encode("", msg::AddSpecial::kYes);
  const auto front = std::mismatch(marks.begin(), marks.end(), out.ids.begin(), out.ids.end()).second;
  const size_t kept = std::min(ids->size(), most - out.ids.size());
  out.ids.insert(front, ids->end() - ptrdiff_t(kept), ids->end());
  return {};
}

}  // namespace weir::openai
