#include "text/tool_format.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace weir::text {
namespace {

using Format = msg::ToolFormat;
using grammar::Segment;
using grammar::Segments;
using Kind = grammar::Segment::Kind;
using Json = nlohmann::ordered_json;

constexpr size_t kMostCalls = 16;  // of one answer that is made to call tools

constexpr std::array<std::pair<std::string_view, Format>, 10> kNames{{{"hermes", Format::kHermes},
                                                                      {"llama", Format::kLlama},
                                                                      {"mistral", Format::kMistral},
                                                                      {"deepseek", Format::kDeepSeek},
                                                                      {"phi", Format::kPhi},
                                                                      {"functionary", Format::kFunctionary},
                                                                      {"function_tags", Format::kFunctionTags},
                                                                      {"harmony", Format::kHarmony},
                                                                      {"pythonic", Format::kPythonic},
                                                                      {"none", Format::kNone}}};

// A call as JSON: `{"name": "…", "<arguments>": …}`.
std::vector<Segment> json_call(const std::string& name, const Segment& value, std::string_view arguments) {
  return {{Kind::kLiteral, "{\"name\": " + Json(name).dump() + ", \"" + std::string(arguments) + "\": "},
          value,
          {Kind::kLiteral, "}"}};
}

// Keywords that cannot be held to: refused where the schema is `strict`.
grammar::Unsupported unsupported_in(const Json& object) {
  const bool strict = object.value("strict", false);
  return strict ? grammar::Unsupported::kRefused : grammar::Unsupported::kIgnored;
}

Segment arguments_of(const Json& tool) {
  return {Kind::kSchema, tool.value("parameters", Json::object()).dump(), unsupported_in(tool)};
}

// The grammar of one format. `marker`: grammar_marker() of its tokenizer.
struct CallPieces {
  ToolStyle style;
  const tokenizers::Tokenizer& tokenizer;

  std::string marker(std::string_view text) const { return grammar_marker(tokenizer, text); }

  void frame(Segments& out) const {
    switch (style.format) {
      case Format::kHermes: out.separator = "\n"; break;
      case Format::kLlama:
      case Format::kPythonic: out.separator = "; "; break;
      case Format::kMistral:
        if (!style.newer) out.head = marker("[TOOL_CALLS]") + " [", out.separator = ", ", out.tail = "]";
        break;
      case Format::kPhi:
        out.head = style.newer ? marker("<|tool_call|>") + "[" : "functools[", out.separator = ", ";
        out.tail = style.newer ? "]" + marker("<|/tool_call|>") : "]";
        break;
      case Format::kDeepSeek:
        out.head = marker("<｜tool▁calls▁begin｜>"), out.tail = marker("<｜tool▁calls▁end｜>");
        if (!style.newer) out.separator = "\n";
        break;
      case Format::kFunctionary: out.separator = "\n>>>"; break;
      case Format::kHarmony: out.most = 1; break;  // its end is the end of the text
      case Format::kFunctionTags:
      case Format::kNone: break;
    }
  }

  std::vector<Segment> call(const std::string& name, const Segment& value) const {
    switch (style.format) {
      case Format::kHermes: {
        auto all = json_call(name, value, "arguments");
        all.insert(all.begin(), {Kind::kLiteral, marker("<tool_call>") + "\n"});
        all.push_back({Kind::kLiteral, "\n" + marker("</tool_call>")});
        return all;
      }
      case Format::kMistral:
        if (style.newer) return {{Kind::kLiteral, marker("[TOOL_CALLS]") + name + marker("[ARGS]")}, value};
        return json_call(name, value, "arguments");
      case Format::kPhi: return json_call(name, value, "arguments");
      case Format::kDeepSeek: {
        const std::string begin = marker("<｜tool▁call▁begin｜>"), sep = marker("<｜tool▁sep｜>"),
                          end = marker("<｜tool▁call▁end｜>");
        if (style.newer) return {{Kind::kLiteral, begin + name + sep}, value, {Kind::kLiteral, end}};
        return {
            {Kind::kLiteral, begin + "function" + sep + name + "\n```json\n"}, value, {Kind::kLiteral, "\n```" + end}};
      }
      case Format::kFunctionary: return {{Kind::kLiteral, name + "\n"}, value};
      case Format::kFunctionTags:
        return {{Kind::kLiteral, "<function=" + name + ">"}, value, {Kind::kLiteral, "</function>"}};
      case Format::kHarmony:
        return {{Kind::kLiteral, marker("<|channel|>") + "commentary to=functions." + name + " " +
                                     marker("<|constrain|>") + "json" + marker("<|message|>")},
                value};
      case Format::kLlama:
      case Format::kPythonic:
      case Format::kNone: break;
    }
    return json_call(name, value, "parameters");
  }
};

}  // namespace

ToolStyle tool_style_of(std::string_view chat_template) {
  const auto has = [&](std::string_view word) { return chat_template.find(word) != chat_template.npos; };
  if (has("<|channel|>") && has("<|message|>")) return {Format::kHarmony};
  if (has("[TOOL_CALLS]")) return {Format::kMistral, has("[ARGS]")};
  if (has("<｜tool▁calls▁begin｜>")) return {Format::kDeepSeek, !has("```json")};
  if (has("<tool_call>")) return {has("<function=") ? Format::kNone : Format::kHermes};  // else Qwen 3 Coder's XML
  if (has(">>>all")) return {Format::kFunctionary};
  if (has("<function=")) return {Format::kFunctionTags};
  if (has("functools") || has("<|tool_call|>")) return {Format::kPhi, !has("functools")};
  if (has("func_name1(") || has("<|python_start|>")) return {Format::kPythonic};
  if (has("<|python_tag|>") || has("Environment: ipython") || (has("\"parameters\": ") && has("tools")))
    return {Format::kLlama};
  return {};
}

std::optional<Format> tool_format_named(std::string_view name) {
  for (auto [word, format] : kNames)
    if (word == name) return format;
  return {};
}

std::string tool_format_names() {
  std::string out;
  for (const auto& [word, format] : kNames)
    (out += word == kNames.front().first ? "" : word == kNames.back().first ? " or " : ", ") += word;
  return out;
}

bool thinks(std::string_view chat_template) { return chat_template.find("</think>") != chat_template.npos; }

std::string grammar_marker(const tokenizers::Tokenizer& tokenizer, std::string_view text) {
  auto id = tokenizer.id(text);
  return id && tokenizer.special(*id) ? "\xff" + std::string(text) : std::string(text);
}

void add_thoughts(const msg::StructuredOutput& form, ToolStyle style, const tokenizers::Tokenizer& tokenizer,
                  Segments& segments) {
  using Thoughts = msg::StructuredOutput::Thoughts;
  if (form.thoughts == Thoughts::kNone) return;
  if (style.format == Format::kHarmony) {
    const std::string channel = grammar_marker(tokenizer, "<|channel|>"),
                      message = grammar_marker(tokenizer, "<|message|>");
    segments.preface = {{Kind::kLiteral, channel + "analysis" + message},
                        {Kind::kUntil, grammar_marker(tokenizer, "<|end|>")},
                        {Kind::kLiteral, grammar_marker(tokenizer, "<|start|>") + "assistant"}};
    if (form.kind != msg::StructuredOutput::Kind::kToolCalls) segments.head = channel + "final" + message;
    return;
  }
  if (form.thoughts == Thoughts::kMayCome)
    segments.preface = {{Kind::kLiteral, grammar_marker(tokenizer, "<think>")}};
  else
    segments.needs = Segments::Preface::kRequired;
  segments.preface.push_back({Kind::kUntil, grammar_marker(tokenizer, "</think>")});
  segments.preface.push_back({Kind::kSpace, ""});
}

grammar::Result<grammar::Grammar> read_tool_calls(const msg::StructuredOutput& form, ToolStyle style,
                                                  const tokenizers::Tokenizer& tokenizer) {
  const Json wanted = Json::parse(form.text, nullptr, false);
  if (!wanted.is_object() || !wanted.contains("tools")) return grammar::Error{"tools: expected a list of tools"};
  const CallPieces format{style, tokenizer};
  Segments segments;
  segments.most = wanted.value("parallel", false) ? kMostCalls : 1;
  format.frame(segments);
  add_thoughts(form, style, tokenizer, segments);
  for (const Json& tool : wanted["tools"]) {
    const std::string name = tool.value("name", std::string());
    const Segment value = arguments_of(tool);
    // Each is looked at alone first, so that an error names its tool.
    if (auto alone = grammar::read_json_schema(value.text, value.unsupported); !alone)
      return grammar::Error{"the parameters of '" + name.substr(0, 64) + "': " + alone.error().message};
    segments.alternatives.push_back(format.call(name, value));
  }
  if (auto otherwise = wanted.find("otherwise"); otherwise != wanted.end()) {
    const Segment value{Kind::kSchema, otherwise->dump(), unsupported_in(wanted)};
    if (auto alone = grammar::read_json_schema(value.text, value.unsupported); !alone)
      return grammar::Error{"the schema of the answer: " + alone.error().message};
    if (style.format == Format::kFunctionary)
      segments.otherwise = {{Kind::kLiteral, "all\n"}};
    else if (style.format == Format::kHarmony)
      segments.otherwise = {{Kind::kLiteral, format.marker("<|channel|>") + "final" + format.marker("<|message|>")}};
    segments.otherwise.push_back(value);
  }
  return grammar::read_segments(segments);
}

}  // namespace weir::text
