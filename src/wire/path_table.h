// PathTable: patterns of paths and what is behind them, as a tree of segments. Fixed names win over placeholders with a
// verb ("{model}:predict", Google's AIP-136), and these over {placeholders}. A verb begins at a segment's last colon.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire/router.h"

namespace weir::wire {

// All routes of one pattern; views of it live as long as the table.
struct PathEntry {
  std::string pattern;
  std::vector<Route> routes;            // one per method and media type, those of a media type first
  std::string allow;                    // the Allow field: "GET, HEAD, POST"
  std::vector<std::string_view> names;  // of the pattern's {placeholders}, in order

  // The route that answers `method` (GET routes answer HEAD) with a body of that Content-Type, or null.
  const Route* find(std::string_view method, const Fields& fields) const;
  // The first route of that very method, whatever media type it takes; null: there is none.
  const Route* first(std::string_view method) const;
  // The protocol of all routes; empty where they differ.
  std::string_view protocol() const;
};

class PathTable {
 public:
  PathTable();
  ~PathTable();
  void add(Route route);
  // The entry for a path as sent (percent-encoded); fills `args`. Null when there is none. A segment with a bad escape
  // matches nothing.
  const PathEntry* find(std::string_view path, PathArgs& args) const;
  // The known path that is nearest to this unknown one, with the path's own segments in place of {placeholders};
  // empty when nothing is near. Only fixed segments count: what a placeholder takes is near to nothing.
  std::string nearest(std::string_view path) const;
  const std::vector<std::unique_ptr<PathEntry>>& entries() const { return entries_; }

 private:
  struct Node;
  // Both ends of the text and its length: enough to tell the paths of a server apart. Not keyed: the configuration
  // alone adds entries, so a peer's text can only be looked for in buckets whose sizes are known.
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const;
  };
  template <class T>
  using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  // The last path that was found below placeholders, and what stood for them: clients ask for one path again and again,
  // and to compare it is a tenth of finding it.
  struct Last {
    std::string path;
    std::vector<std::string> values;
    const PathEntry* entry = nullptr;
  };
  static const PathEntry* give(const std::vector<std::string>& values, const PathEntry& entry, PathArgs& args);

  std::vector<std::unique_ptr<PathEntry>> entries_;
  ByText<PathEntry*> exact_;
  std::unique_ptr<Node> root_;
  mutable Last last_;  // of this shard's router
};

}  // namespace weir::wire
