#include "models/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <unordered_set>

namespace weir::models {
namespace {

// Thrown to end the parse where the document is refused; caught in parse_yaml().
struct YamlError {
  YAML::Mark mark;
  std::string text;
};

// Builds the tree from the parser's events, because yaml-cpp's own nodes may be shared, and form a cycle for `&a {b:
// *a}`. The depth and the number of events are bounded, and each takes constant time.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(Complaints& complaints, size_t most) : complaints_(complaints), most_(most) {}

  Yaml take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { finish(begin(mark, anchor)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_sharing(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    Yaml node = begin(mark, anchor);
    node.kind = Yaml::Kind::kScalar;
    node.scalar = value;
    finish(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Yaml::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Yaml::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or a map that has begun.
  struct Open {
    Yaml node;
    Yaml::Member entry;  // of a map: the key that waits for its value
    bool keyed = false;
    bool skipped = false;  // the key is a list or a map: its value is dropped
    std::unordered_set<std::string> keys{};
  };

  [[noreturn]] static void refuse_sharing(const YAML::Mark& mark) {
    throw YamlError{mark, "anchors (&name) and aliases (*name) are not read: write the value out where it is used"};
  }

  Yaml begin(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) refuse_sharing(mark);
    if (++nodes_ > most_)
      throw YamlError{mark, "the document has more than " + std::to_string(most_) + " keys and values"};
    Yaml node;
    if (mark.is_null()) return node;
    node.line = uint32_t(mark.line + 1);
    node.column = uint32_t(mark.column + 1);
    return node;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Yaml::Kind kind) {
    if (open_.size() == kMaxYamlDepth)
      throw YamlError{mark, "lists and maps are nested deeper than " + std::to_string(kMaxYamlDepth) + " levels"};
    open_.push_back({begin(mark, anchor), {}});
    open_.back().node.kind = kind;
  }

  void close() {
    Yaml node = std::move(open_.back().node);
    open_.pop_back();
    finish(std::move(node));
  }

  void finish(Yaml&& node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& in = open_.back();
    if (in.node.kind == Yaml::Kind::kList)
      in.node.items.push_back(std::move(node));
    else if (!std::exchange(in.keyed, !in.keyed))
      key(in, node);
    else if (!in.skipped)
      value(in, std::move(node));
  }

  void key(Open& in, const Yaml& node) {
    in.skipped = node.kind != Yaml::Kind::kScalar;
    in.entry = {node.scalar, node.line, node.column, {}};
    if (in.skipped)
      complaints_.at(node, "a key must be plain text");
    else if (!in.keys.insert(node.scalar).second)
      complaints_.at(node, "key '" + node.scalar + "' is given twice");
  }

  static void value(Open& in, Yaml&& node) {
    in.entry.value = std::move(node);
    in.node.entries.push_back(std::move(in.entry));
  }

  Complaints& complaints_;
  const size_t most_;  // keys and values
  Yaml root_;
  std::vector<Open> open_;
  size_t nodes_ = 0;
};

base::Result<Yaml> parse(std::string_view text, std::string_view file, size_t most_nodes) {
  Complaints complaints{std::string(file)};
  TreeBuilder builder(complaints, most_nodes);
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  bool any = parser.HandleNextDocument(builder);
  Yaml tree = builder.take();
  TreeBuilder rest(complaints, most_nodes);
  if (any && parser.HandleNextDocument(rest)) return base::invalid(std::string(file) + ": more than one document");
  if (!complaints.none()) return complaints.status();
  return tree;
}

}  // namespace

base::Result<Yaml> parse_yaml(std::string_view text, std::string_view file, YamlBounds bounds) {
  if (text.size() > bounds.bytes)
    return base::invalid(std::string(file) + ": longer than " + std::to_string(bounds.bytes >> 20) + " MiB");
  try {
    return parse(text, file, bounds.nodes);
  } catch (const YamlError& refusal) {
    const YAML::Mark& mark = refusal.mark;
    return base::invalid(base::place_in_file(file, uint32_t(mark.line + 1), uint32_t(mark.column + 1)) + refusal.text);
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) return base::invalid(std::string(file) + ": " + e.msg);
    return base::invalid(base::place_in_file(file, uint32_t(e.mark.line + 1), uint32_t(e.mark.column + 1)) + e.msg);
  }
}

}  // namespace weir::models
