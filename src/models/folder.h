// Folders of a repository in Triton's layout: <root>/<model>/[config.pbtxt | model.yaml], <root>/<model>/<version>/….
// A root can also be one model file: <name>/<version>/model.onnx is that version of that model, with its configuration;
// any other file is version 1 of a model that is named after it, or after its folder where it is called model.onnx. So
// is a folder without models in it that has config.json beside *.safetensors, or *.gguf, or model.py: a model, named
// after the folder. A folder in it is one of a model where it has a configuration or a version.
//
// Files are opened below the model's folder only, through no symbolic link, and must be regular. Texts of errors name
// them relative to the root, never with a path of this machine.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::models {

// [A-Za-z0-9_.,-]{1,128} without "..", not starting with a dot.
bool good_model_name(std::string_view name);
base::Status bad_name(const std::string& name);  // says so of another one
// "1", "42": a version folder's number, or 0.
uint64_t version_number(std::string_view folder);
// A relative path whose parts are non-empty and none of them "." or "..".
bool good_relative_path(std::string_view path);

// How a file looked from outside. Two equal stamps: the same content, for all that a poll can tell.
struct FileStamp {
  std::string path;  // relative to the folder
  int64_t mtime_ns = 0;
  uint64_t size = 0, inode = 0;
  uint64_t mode = 0, owner = 0, group = 0;  // a file that could not be read may be readable now
  friend auto operator<=>(const FileStamp&, const FileStamp&) = default;
};
using Stamps = std::vector<FileStamp>;  // sorted
uint64_t fingerprint(const Stamps& stamps);

struct ModelFolder {
  std::string name;
  std::string path;                     // absolute or as the root was given
  Stamps shared;                        // the files beside the version folders
  std::map<uint64_t, Stamps> versions;  // by number; may be empty
  std::string lone_file;                // not empty: the model is this file in `path`, which has no folders of versions
  std::string wrong;                    // why nothing in it can be served; empty when it could be looked at
  // Entries that look like a version and are none ("v1", a link called "2"): their names, and why they are not served.
  std::map<std::string, std::string> skipped;

  bool has(std::string_view shared_file) const;
  // Changes whenever any file does.
  uint64_t fingerprint() const;
  // Changes whenever what version `v` is made of does.
  uint64_t fingerprint(uint64_t v) const;
  // The name of a file of version `v`, below `path`.
  std::string relative(uint64_t v, std::string_view file) const;
  // An engine quotes the paths that it was given; clients read "digits/1/model.onnx".
  std::string without_root(std::string text) const;
  std::string version_path(uint64_t v) const { return lone_file.empty() ? path + "/" + std::to_string(v) : path; }
  std::vector<uint64_t> numbers() const;  // ascending
};

// Whether a root is one model, as above.
bool is_one_model(const std::string& root);
// The names of the folders in `root` that can be models, sorted; `odd` gets those whose names no model can have. A link
// to a folder counts as one; what begins with a dot does not, and neither does __pycache__. Errors: NOT_FOUND when it
// cannot be listed.
base::Result<std::vector<std::string>> list_models(const std::string& root, std::vector<std::string>* odd = nullptr);
// Looks at one. Errors: NOT_FOUND; UNAVAILABLE where the system lacks descriptors or memory to look with, which is no
// news of the folder. One that cannot be listed is `wrong`.
base::Result<ModelFolder> read_model_folder(const std::string& root, std::string_view name);
// The same of a root that is not one model, which takes a look at the whole root to know.
base::Result<ModelFolder> read_folder_of_repository(const std::string& root, std::string_view name);
// As read_model_folder(), in the first root that has it.
base::Result<ModelFolder> find_model_folder(const std::vector<std::string>& roots, std::string_view name);

// NOT_FOUND, UNAVAILABLE as above, or FAILED_PRECONDITION for what is no regular file or is reached through a symbolic
// link.
base::Status check_file(const std::string& folder, std::string_view relative);
// The same, and its content, of at most `limit` bytes.
base::Result<std::string> read_file(const std::string& folder, std::string_view relative, size_t limit);

}  // namespace weir::models
