// Several forms in one text: literal text around values of schemas.
#include <utility>
#include <vector>

#include "grammar/readers.h"
#include "json_schema.h"

namespace grammar {
namespace {

// Any text that ends with `marker`, and does not have it before. Where a beginning of the marker does not go on as it
// does, the text goes on; the next beginning may stand directly behind, since its first byte comes but once.
Node until(Grammar& out, const std::string& marker) {
  const auto first = uint32_t(uint8_t(marker[0]));
  if (first >= 0x80)  // no character begins so
    return out.sequence({out.repeat(out.characters({{0, kLastCharacter}}), 0, kUnbounded), out.literal(marker)});
  std::vector<Node> begun, broken_off;
  for (size_t i = 1; i < marker.size(); ++i) {
    const auto next = uint32_t(uint8_t(marker[i]));
    const Node prefix = out.literal(marker.substr(0, i));
    begun.push_back(prefix);
    broken_off.push_back(out.sequence({prefix, out.characters(complement({{first, first}, {next, next}}))}));
  }
  const Node begins = out.repeat(out.choice(std::move(begun)), 0, kUnbounded);
  const Node other = out.choice(
      {out.characters(complement({{first, first}})), out.sequence({begins, out.choice(std::move(broken_off))})});
  return out.sequence({out.repeat(other, 0, kUnbounded), begins, out.literal(marker)});
}

class PieceReader {
 public:
  explicit PieceReader(Grammar& out) : out_(out), schemas_(out) {}

  Result<Node> sequence(const std::vector<Segment>& segments) {
    std::vector<Node> parts;
    for (const Segment& segment : segments) {
      auto node = one(segment);
      if (!node) return node;
      parts.push_back(*node);
    }
    return out_.sequence(std::move(parts));
  }

 private:
  Result<Node> one(const Segment& segment) {
    using Kind = Segment::Kind;
    if (segment.kind == Kind::kLiteral) return out_.literal(segment.text);
    if (segment.kind == Kind::kUntil) return until(out_, segment.text);
    if (segment.kind == Kind::kSpace) return out_.repeat(out_.characters({{' ', ' '}, {'\n', '\n'}}), 0, 4);
    auto document = parse_document(segment.text);
    if (!document) return document.error();
    return schemas_.read(*document, segment.unsupported);
  }

  Grammar& out_;
  SchemaReader schemas_;
};

Result<Node> preface_of(const Segments& segments, PieceReader& reader, Grammar& out) {
  auto preface = reader.sequence(segments.preface);
  if (preface && segments.needs == Segments::Preface::kOptional) *preface = out.optional(*preface);
  return preface;
}

}  // namespace

Result<Grammar> put_between(const Segments& segments, Grammar form) {
  PieceReader reader(form);
  auto preface = preface_of(segments, reader, form);
  if (!preface) return preface.error();
  const Node whole =
      form.sequence({*preface, form.literal(segments.head), form.rule(form.root), form.literal(segments.tail)});
  form.root = form.add_rule("");
  form.define(form.root, whole);
  return form;
}

Result<Grammar> read_segments(const Segments& segments) {
  Grammar out;
  PieceReader reader(out);
  std::vector<Node> all;
  for (const auto& alternative : segments.alternatives) {
    auto node = reader.sequence(alternative);
    if (!node) return node.error();
    all.push_back(*node);
  }
  auto preface = preface_of(segments, reader, out);
  if (!preface) return preface.error();
  const Node one = out.choice(std::move(all));
  const auto least = uint32_t(segments.least), most = uint32_t(segments.most);
  const Node more =
      out.repeat(out.sequence({out.literal(segments.separator), one}), least > 0 ? least - 1 : 0, most - 1);
  Node form = out.sequence({out.literal(segments.head), one, more, out.literal(segments.tail)});
  if (!segments.otherwise.empty()) {
    auto otherwise = reader.sequence(segments.otherwise);
    if (!otherwise) return otherwise.error();
    form = out.choice({form, *otherwise});
  }
  const Node text = out.sequence({*preface, form});
  out.root = out.add_rule("root");
  out.define(out.root, least == 0 ? out.optional(text) : text);
  return out;
}

}  // namespace grammar
