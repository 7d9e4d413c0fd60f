// Readers: texts that describe a form become a Grammar. Their time and memory are bounded by the size of the text, by
// kMostNodes, and by what they say here. Errors name the place: "line 3: …", "at 17: …", "/properties/a: …".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "grammar/error.h"
#include "grammar/grammar.h"

namespace grammar {

inline constexpr size_t kMostText = size_t(256) << 10;  // bytes of what a reader takes
inline constexpr size_t kMostNested = 100;              // groups, schemas or values inside each other

// llama.cpp's GBNF: rules `name ::= …` with "literals", [classes], ., ( ), |, *, +, ?, {m,n} and # comments. The rule
// `root` is the text. Not supported: tokens (<[17]>, <think>).
Result<Grammar> read_gbnf(std::string_view text);

// A regular expression that the whole text matches, in the syntax that Python and ECMAScript share: literals, escapes,
// classes, groups, |, greedy and lazy quantifiers; ^ and $ at the ends. Not supported: look-around, back-references,
// word boundaries, flags, Unicode properties.
Result<Grammar> read_regex(std::string_view text);

// One of the texts.
Result<Grammar> read_choice(std::span<const std::string> texts);

// Keywords of a JSON schema that a grammar cannot express are refused or ignored. kIgnored: texts may be wider than
// the schema there.
enum class Unsupported : uint8_t { kRefused, kIgnored };

// A JSON value that is valid for the schema (draft 2020-12, and what draft 7 says otherwise: `definitions`, `items` as
// a list). The README says which keywords there are. The grammar may be narrower than the schema, never wider but for
// what is ignored: properties come in the schema's order, and white space is at most one space behind a comma or a
// colon. Errors name the keyword that cannot be expressed, and its JSON pointer.
Result<Grammar> read_json_schema(std::string_view schema, Unsupported unsupported = Unsupported::kRefused);

// Any JSON object.
Grammar json_object();

// Several forms in one text. Tool calls are such: literal text around values of schemas.
struct Segment {
  enum class Kind : uint8_t {
    kLiteral,
    kSchema,  // a value of that JSON schema
    kUntil,   // any text that ends with `text`: ASCII whose first byte comes but once, or it begins with 0xff
    kSpace,   // up to four spaces and ends of lines
  } kind = Kind::kLiteral;
  std::string text;
  Unsupported unsupported = Unsupported::kRefused;  // of kSchema
};
// A text is one of the alternatives, `least` to `most` times with `separator` between; each is a list of segments.
// Before and after it come `head` and `tail`; in place of all these there may be `otherwise`, where that is not empty.
// Before all that there may be `preface`, or must be.
struct Segments {
  enum class Preface : uint8_t { kOptional, kRequired };
  std::vector<Segment> preface;
  Preface needs = Preface::kOptional;
  std::string head, tail, separator;
  std::vector<std::vector<Segment>> alternatives;
  std::vector<Segment> otherwise;
  size_t least = 1, most = 1;
};
Result<Grammar> read_segments(const Segments& segments);
// Another grammar as the one alternative: with what `segments` puts before and after it.
Result<Grammar> put_between(const Segments& segments, Grammar form);

}  // namespace grammar
