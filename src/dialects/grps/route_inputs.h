// Reads a request at the places that a route names (RouteSpec::inputs): the inputs of a Call.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "dialects/grps/form_data.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "wire/exchange.h"
#include "wire/router.h"

namespace weir::grps {

// Where an input comes from: "query:k", …, "base64:query:k".
struct Source {
  enum class Place : uint8_t { kQuery, kHeader, kPath, kPointer, kBody, kForm };
  enum class Coding : uint8_t { kNone, kBase64 };
  Place place = Place::kBody;
  std::string_view key{};  // of `text`
  Coding coding = Coding::kNone;
};
// Nothing for a text that is no source.
std::optional<Source> read_source(std::string_view text);

// True for a source that is in the body: it is read, or copied to become an element of BYTES.
bool reads_body(std::string_view source);

// One request's; the form is read at the first field that is asked for. Any thread.
class RouteInputs {
 public:
  RouteInputs(const wire::Request& request, const base::Bytes& body, const wire::PathArgs& args,
              base::SlabSource& slabs)
      : request_(request), body_(body), args_(args), slabs_(slabs) {}

  // Puts what is at `source` into the Call as `input`: a word or an element of BYTES as it is; a number, an array of
  // them, or either of them in strings, cast to the declared type; octets (the body, base64, a part of a form that is
  // an application/octet-stream) as the tensor's own bytes. Nothing for an optional input that is not there. Errors:
  // INVALID_ARGUMENT.
  base::Status fill(const std::string& input, std::string_view source, const msg::ModelSpec& spec, msg::Call& call);

 private:
  struct Value {
    enum class BodyKind : uint8_t { kNothing, kWord, kJson, kOctets };
    BodyKind form = BodyKind::kNothing;
    base::Bytes bytes{};
  };
  base::Result<Value> find(const Source& source);
  base::Result<Value> find_field(std::string_view name);
  base::Status decode(std::string_view source, Value& value) const;
  // Throws bad_alloc where the ledger has no room for it.
  base::Bytes charged(std::string text) const;
  base::Status set_input(const std::string& input, const Value& value, const msg::ModelSpec& spec, msg::Call& call);
  base::Status place_json(const std::string& input, std::string_view json, const msg::ModelSpec& spec, msg::Call& call);

  const wire::Request& request_;
  const base::Bytes& body_;
  const wire::PathArgs& args_;
  base::SlabSource& slabs_;
  std::optional<FormData> form_;
};

}  // namespace weir::grps
