// SchemaReader: a JSON schema into nodes of a grammar that is there already.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/error.h"
#include "grammar/grammar.h"
#include "grammar/readers.h"
#include "json_document.h"
#include "schema_merge.h"

namespace grammar {

class SchemaReader {
 public:
  explicit SchemaReader(Grammar& out);

  // The values of a schema; `document` is where its references lead, and outlives this.
  Result<Node> read(const Json& document, Unsupported unsupported);
  Node any_object();
  Node any_value();

 private:
  struct Property {
    std::string key;
    Json schema;
    bool required = false;
  };

  Result<Node> node(const Json& schema, const std::string& pointer);
  Result<Node> flat_node(const Json& flat, const std::string& pointer);
  Result<Node> alternatives(const Json& flat, const char* keyword, const std::string& pointer);
  Result<Node> typed(const Json& flat, const std::string& type, const std::string& pointer);
  Result<Node> values(const Json& flat, const std::string& pointer);

  Result<Node> scalar(const Json& flat, const std::string& type, const std::string& pointer);
  Result<Node> reference(const Json& schema, const std::string& pointer);
  Result<const Json*> resolve(const Json& schema, const std::string& pointer) const;
  Result<Json> flatten(const Json& schema, const std::string& pointer, size_t depth);

  Result<Node> array(const Json& flat, const std::string& pointer);
  Result<Node> object(const Json& flat, const std::string& pointer);
  Result<Node> map(const Json& flat, const Json& value, const std::string& pointer);
  Result<std::vector<Property>> properties(const Json& flat, const std::string& pointer);
  Result<Node> extra(const Json& flat, const std::vector<Property>& named, const std::string& pointer);
  Node other_key(const std::vector<std::u32string>& keys, size_t depth);
  bool ignores() const { return merging_.unsupported == Unsupported::kIgnored; }
  Node named(Node node);
  Node in_braces(const char* open, Node inside, const char* close);

  Grammar& out_;
  const Json* document_ = nullptr;
  Merging merging_;
  uint32_t string_, value_, object_;  // rules
  Node comma_, colon_;
  std::map<std::string, uint32_t> references_, merged_, scalars_;  // rules, by pointer and by text
  size_t depth_ = 0, work_ = 0, comparisons_ = 0;
};

}  // namespace grammar
