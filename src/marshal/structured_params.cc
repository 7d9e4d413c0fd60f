// The parameters that give a completion its form:
//
//   response_format     {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": …, …}}     OpenAI
//   response_format     {"type": "json" | "json_object" | "regex", "value": …}           Hugging Face's TGI and clients
//   structured_outputs  {"json" | "regex" | "choice" | "grammar" | "json_object": …}                       vLLM
//   guided_json, guided_regex, guided_choice, guided_grammar                                      vLLM, older clients
//   json_schema, grammar                                                                                    llama.cpp
#include "marshal/structured_params.h"

namespace weir::marshal {
namespace {

using msg::StructuredOutput;
using FormKind = StructuredOutput::Kind;

bool read_schema(FieldReader& reader, std::string_view name, StructuredOutput& out) {
  JsonCursor& json = reader.json();
  out.kind = FormKind::kJsonSchema;
  switch (json.peek()) {
    case JsonCursor::Kind::kString: return reader.text(name, kMaxForm, out.text);
    case JsonCursor::Kind::kObject:
    case JsonCursor::Kind::kBool: break;
    default: return reader.unexpected(name, "a JSON schema");
  }
  const size_t at = json.at();
  if (!json.skip()) return false;
  out.text = json.since(at);
  return out.text.size() <= kMaxForm || reader.refuse(name, "at most " + std::to_string(kMaxForm) + " bytes");
}

bool read_text(FieldReader& reader, std::string_view name, FormKind kind, StructuredOutput& out) {
  out.kind = kind;
  if (reader.json().peek() != JsonCursor::Kind::kString) return reader.unexpected(name, "a string");
  return reader.text(name, kMaxForm, out.text);
}

bool read_choices(FieldReader& reader, std::string_view name, StructuredOutput& out) {
  JsonCursor& json = reader.json();
  out.kind = FormKind::kChoice;
  if (json.peek() != JsonCursor::Kind::kArray) return reader.unexpected(name, "a list of strings");
  return json.array([&] {
    if (json.peek() != JsonCursor::Kind::kString) return reader.unexpected(name, "a list of strings");
    if (out.choices.size() == kMaxFormChoices)
      return reader.refuse(name, "at most " + std::to_string(kMaxFormChoices) + " strings");
    return reader.text(name, kMaxForm, out.choices.emplace_back());
  });
}

// A form by the word that says its kind, with the prefix of older clients or without.
bool read_kind(FieldReader& reader, std::string_view name, std::string_view word, StructuredOutput& out) {
  if (word == "json" || word == "json_schema") return read_schema(reader, name, out);
  if (word == "regex") return read_text(reader, name, FormKind::kRegex, out);
  if (word == "grammar") return read_text(reader, name, FormKind::kGrammar, out);
  return read_choices(reader, name, out);
}

bool read_structured_outputs(FieldReader& reader, std::string_view name, std::optional<StructuredOutput>& out) {
  JsonCursor& json = reader.json();
  if (json.peek() != JsonCursor::Kind::kObject) return reader.unexpected(name, "an object");
  return json.object([&](std::string_view key) {
    const std::string member(key.substr(0, 64));
    if (reader.none()) return true;
    if (member == "disable_fallback" || member == "disable_any_whitespace" || member == "_backend")
      return json.skip();  // the text has no white space but behind commas and colons anyway
    const bool any = member == "json_object";
    if (!any && member != "json" && member != "regex" && member != "choice" && member != "grammar")
      return reader.refuse(name, "takes json, regex, choice, grammar or json_object, not " + member);
    StructuredOutput form;
    bool wanted = true;
    if (any ? !reader.flag(name, wanted) : !read_kind(reader, name, member, form)) return false;
    if (!wanted) return true;
    if (out) return reader.refuse(name, "takes one form");
    out = std::move(form);
    return true;
  });
}

using Schema = StructuredOutput::Schema;

// {"name", "description", "schema", "strict"}
bool read_named_schema(FieldReader& reader, std::string_view name, StructuredOutput& out, bool& there) {
  JsonCursor& json = reader.json();
  if (json.peek() != JsonCursor::Kind::kObject) return reader.unexpected("response_format.json_schema", "an object");
  bool strict = false;
  std::string said;
  const bool good = json.object([&](std::string_view key) {
    if (key == "name") return reader.text("response_format.json_schema.name", kMaxForm, said);
    if (key == "description") return reader.text("response_format.json_schema.description", kMaxForm, said);
    if (key == "strict") return reader.flag("response_format.json_schema.strict", strict);
    if (key != "schema") return json.skip();
    there = true;
    return read_schema(reader, name, out);
  });
  out.schema = strict ? Schema::kStrict : Schema::kGuide;
  return good;
}

bool read_response_format(FieldReader& reader, std::string_view name, std::optional<StructuredOutput>& out) {
  JsonCursor& json = reader.json();
  if (json.peek() != JsonCursor::Kind::kObject) return reader.unexpected(name, "an object");
  std::string type;
  StructuredOutput form;
  bool schema = false, value = false, value_is_text = false;
  bool good = json.object([&](std::string_view key) {
    const std::string member(key.substr(0, 64));
    if (member == "type") return reader.text("response_format.type", 64, type);
    if (reader.none()) return true;
    if (member == "value") {
      value = true, value_is_text = json.peek() == JsonCursor::Kind::kString;
      return form.schema = Schema::kGuide, read_schema(reader, "response_format.value", form);
    }
    if (member == "json_schema") return read_named_schema(reader, name, form, schema);
    if (member == "schema")  // llama.cpp's, which holds to no schema that it cannot express
      return schema = true, form.schema = Schema::kGuide, read_schema(reader, name, form);
    return reader.refuse(name, "takes type and json_schema, not " + member);
  });
  if (!good) return false;
  if (type == "text") return true;
  if (type == "json" || type == "regex") {
    if (!value || (type == "regex" && !value_is_text))
      return reader.refuse("response_format.value", type == "json" ? "a schema is missing" : "a text is missing");
    if (type == "regex") form.kind = FormKind::kRegex, form.schema = StructuredOutput().schema;
    return out = std::move(form), true;
  }
  if (type != "json_object" && type != "json_schema")
    return reader.refuse("response_format.type", "takes text, json_object or json_schema");
  if (type == "json_schema" && !schema) return reader.refuse("response_format.json_schema", "schema is missing");
  out = std::move(form);
  return true;
}

}  // namespace

bool read_structured(FieldReader& reader, const ParamRow& row, std::optional<StructuredOutput>& out) {
  if (reader.none()) return true;
  std::optional<StructuredOutput> form;
  bool good = true;
  if (row.name == "response_format") {
    good = read_response_format(reader, row.name, form);
  } else if (row.name == "structured_outputs") {
    good = read_structured_outputs(reader, row.name, form);
  } else {
    std::string_view word = row.name;
    if (word.starts_with("guided_")) word.remove_prefix(7);
    good = read_kind(reader, row.name, word, form.emplace());
    if (row.name == "json_schema") form->schema = Schema::kGuide;
    // "" asks for nothing.
    if (good && form->text.empty() && form->choices.empty()) form.reset();
  }
  if (!good || !form) return good;
  if (out)
    return reader.refuse(row.name, "the text has one form, and " + std::string(out->param) + " gives it one already");
  form->param = row.name;
  out = std::move(form);
  return true;
}

}  // namespace weir::marshal
