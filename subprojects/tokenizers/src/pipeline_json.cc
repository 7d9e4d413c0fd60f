#include "pipeline_json.h"

#include <utility>

#include "utf8.h"

namespace tokenizers {

namespace {

// GPT-2's, which ByteLevel uses unless told otherwise.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr size_t kMaxSteps = 64;  // of one kind; each may call the next
constexpr size_t kMaxPrefix = 256;

Pattern compiled(const JsonFields& fields, std::string_view regex) {
  auto pattern = Pattern::compile(regex);
  if (pattern) return std::move(*pattern);
  fields.fail(": " + pattern.error().message);
  return Pattern::literal("");
}

// {"String": "…"} or {"Regex": "…"}
Pattern pattern_of(const JsonFields& fields) {
  auto value = fields.find("pattern");
  if (!value) {
    fields.fail(".pattern is missing");
    return Pattern::literal("");
  }
  JsonFields pattern(*value, fields.path() + ".pattern", fields.errors());
  if (auto regex = pattern.text("Regex")) return compiled(pattern, *regex);
  auto text = pattern.text("String");
  if (!text) pattern.fail(" has neither String nor Regex");
  return Pattern::literal(std::string(text.value_or("")));
}

// Accents go with the capitals unless the file says otherwise.
BertNormalizer bert_of(const JsonFields& fields) {
  BertNormalizer step;
  step.clean = fields.flag("clean_text", true);
  step.ideographs = fields.flag("handle_chinese_chars", true);
  step.lowercase = fields.flag("lowercase", true);
  step.strip_accents = fields.flag("strip_accents", step.lowercase);
  return step;
}

void add_charsmap(const JsonFields& fields, Normalizer& out) {
  auto charsmap = Charsmap::parse(fields.text("precompiled_charsmap").value_or(""));
  if (!charsmap) return fields.fail(".precompiled_charsmap is not a table of at most 16 MiB in base64");
  out.add(std::move(*charsmap));
}

void normalizer(const JsonFields& fields, Normalizer& out, int depth) {
  static constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::kNfc},
                                                                        {"NFD", UnicodeForm::kNfd},
                                                                        {"NFKC", UnicodeForm::kNfkc},
                                                                        {"NFKD", UnicodeForm::kNfkd}};
  std::string_view type = type_of(fields);
  if (out.size() == kMaxSteps) return fields.fail(" is one step too many: 64 are supported");
  if (type == "Sequence" && depth < kMaxDepth)
    return fields.each("normalizers", [&](const JsonFields& part) { normalizer(part, out, depth + 1); });
  if (type == "Prepend") {
    auto text = fields.text("prepend");
    if (!text) fields.fail(".prepend is missing");
    if (text && text->size() > kMaxPrefix) fields.fail(".prepend is longer than 256 bytes");
    return out.add(Prepend{std::string(text.value_or(""))});
  }
  if (type == "BertNormalizer") return out.add(bert_of(fields));
  if (type == "StripAccents") return out.add(StripAccents{});
  if (type == "Precompiled") return add_charsmap(fields, out);
  if (type == "Strip") return out.add(Strip{fields.flag("strip_left", true), fields.flag("strip_right", true)});
  if (type == "Lowercase") return out.add(Lowercase{});
  if (type == "Replace") return out.add(Replace{pattern_of(fields), std::string(fields.text("content").value_or(""))});
  for (const auto& [name, form] : kForms)
    if (type == name) return out.add(form);
  refuse(fields, type);
}

SplitDelimiterBehavior behavior_of(const JsonFields& fields, std::string_view name) {
  static constexpr std::pair<std::string_view, SplitDelimiterBehavior> kNames[] = {
      {"Isolated", SplitDelimiterBehavior::kIsolated},
      {"Removed", SplitDelimiterBehavior::kRemoved},
      {"MergedWithPrevious", SplitDelimiterBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitDelimiterBehavior::kMergedWithNext},
      {"Contiguous", SplitDelimiterBehavior::kContiguous}};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  fields.fail(".behavior '" + std::string(name.substr(0, 100)) + "' is not known");
  return SplitDelimiterBehavior::kIsolated;
}

Metaspace metaspace_of(const JsonFields& fields) {
  using PrependScheme = Metaspace::PrependScheme;
  Metaspace step;
  step.replacement = fields.text("replacement").value_or(kMetaspace);
  step.split = fields.flag("split", true);
  if (step.replacement.empty() || step.replacement.size() != utf8_size(step.replacement[0]))
    fields.fail(".replacement is not one character");
  // `add_prefix_space` is how files from before 2024 say it.
  std::string_view scheme = fields.flag("add_prefix_space", true) ? "always" : "never";
  scheme = fields.text("prepend_scheme").value_or(scheme);
  if (scheme == "never")
    step.prepend_scheme = PrependScheme::kNever;
  else if (scheme == "first")
    step.prepend_scheme = PrependScheme::kFirst;
  else if (scheme != "always")
    fields.fail(".prepend_scheme is not always, first or never");
  return step;
}

// Adds the steps of one pre-tokenizer; ByteLevel must come last, as it changes what bytes are called.
void pre_tokenizer(const JsonFields& fields, PreTokenizer& out, bool& byte_level, int depth) {
  std::string_view type = type_of(fields);
  if (byte_level) return fields.fail(" follows ByteLevel, which is not supported");
  if (out.size() == kMaxSteps) return fields.fail(" is one step too many: 64 are supported");
  auto split = [&](std::string_view regex, SplitDelimiterBehavior behavior, bool invert = false) {
    out.add(Split{compiled(fields, regex), behavior, invert});
  };
  if (type == "Sequence" && depth < kMaxDepth) {
    fields.each("pretokenizers", [&](const JsonFields& part) { pre_tokenizer(part, out, byte_level, depth + 1); });
  } else if (type == "Split") {
    auto behavior = behavior_of(fields, fields.text("behavior").value_or("Isolated"));
    out.add(Split{pattern_of(fields), behavior, fields.flag("invert", false)});
  } else if (type == "ByteLevel") {
    if (fields.flag("add_prefix_space", true)) out.add(AddPrefixSpace{});
    if (fields.flag("use_regex", true)) split(kGpt2, SplitDelimiterBehavior::kIsolated);
    byte_level = true;
  } else if (type == "Metaspace") {
    out.add(metaspace_of(fields));
  } else if (type == "Digits") {
    bool single = fields.flag("individual_digits", false);
    split(R"(\p{N})", single ? SplitDelimiterBehavior::kIsolated : SplitDelimiterBehavior::kContiguous);
  } else if (type == "Punctuation") {
    split(R"([\p{P}\x{21}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{60}\x{7b}-\x{7e}])",
          behavior_of(fields, fields.text("behavior").value_or("Isolated")));
  } else if (type == "Whitespace") {
    split(R"(\w+|[^\w\s]+)", SplitDelimiterBehavior::kRemoved, true);
  } else if (type == "BertPreTokenizer") {
    out.add(BertPreTokenizer{});
  } else if (type == "WhitespaceSplit") {
    split(R"(\s)", SplitDelimiterBehavior::kRemoved);
  } else {
    refuse(fields, type);
  }
}

void strip_decoder(const JsonFields& fields, Decoder& out, bool fused) {
  std::string_view content = fields.text("content").value_or(" ");
  uint64_t start = fields.number("start").value_or(0);
  if (fields.number("stop").value_or(0) != 0) fields.fail(".stop: only the beginning can be stripped");
  if (start == 0) return;
  if (content.size() != 1 || static_cast<unsigned char>(content[0]) >= 0x80)
    return fields.fail(".content is not one ASCII character");
  if (!fused || out.strip_start > 0) return fields.fail(": Strip is supported once, behind Fuse");
  if (start > 1024) return fields.fail(".start is too large");
  out.strip = content[0];
  out.strip_start = uint32_t(start);
}

void read_word_piece_decoder(const JsonFields& fields, Decoder& out) {
  out.continuing = fields.text("prefix").value_or("##");
  out.cleanup = fields.flag("cleanup", true);
  if (out.continuing.empty()) fields.fail(".prefix is empty");
}

void decoder(const JsonFields& fields, Decoder& out, bool& fused, int depth) {
  std::string_view type = type_of(fields);
  if (out.replace.size() == kMaxSteps) return fields.fail(" is one step too many: 64 are supported");
  if (type == "Sequence" && depth < kMaxDepth) {
    fields.each("decoders", [&](const JsonFields& part) { decoder(part, out, fused, depth + 1); });
  } else if (type == "ByteLevel") {
    if (fused || out.byte_fallback || !out.replace.empty()) fields.fail(": ByteLevel is supported alone");
    out.byte_level = true;
  } else if (type == "Replace") {
    if (fused || out.byte_fallback) fields.fail(": Replace is supported before ByteFallback and Fuse");
    out.replace.push_back({pattern_of(fields), std::string(fields.text("content").value_or(""))});
  } else if (type == "ByteFallback") {
    if (fused) fields.fail(": ByteFallback is supported before Fuse");
    out.byte_fallback = true;
  } else if (type == "Fuse") {
    fused = true;
  } else if (type == "Strip") {
    strip_decoder(fields, out, fused);
  } else if (type == "WordPiece") {
    if (fused || out.byte_fallback || !out.replace.empty()) fields.fail(": WordPiece is supported alone");
    read_word_piece_decoder(fields, out);
  } else if (type == "Metaspace") {
    Metaspace step = metaspace_of(fields);
    if (fused) fields.fail(": Metaspace is supported before Fuse");
    out.replace.push_back({Pattern::literal(step.replacement), " "});
    if (step.prepend_scheme != Metaspace::PrependScheme::kNever) out.strip_start = 1;
  } else {
    refuse(fields, type);
  }
}

}  // namespace

std::string_view type_of(const JsonFields& fields) {
  auto type = fields.text("type");
  if (!type) fields.fail(".type is missing");
  return type.value_or("");
}

void refuse(const JsonFields& fields, std::string_view type) {
  fields.fail(": the type '" + std::string(type.substr(0, 100)) + "' is not supported");
}

void read_normalizer(const JsonFields& fields, Normalizer& out) { normalizer(fields, out, 0); }

bool read_pre_tokenizer(const JsonFields& fields, PreTokenizer& out) {
  bool byte_level = false;
  pre_tokenizer(fields, out, byte_level, 0);
  return byte_level;
}

void read_decoder(const JsonFields& fields, Decoder& out) {
  bool fused = false;
  decoder(fields, out, fused, 0);
}

}  // namespace tokenizers
