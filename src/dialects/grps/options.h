// The settings of the protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::wire {
class Offload;
}

namespace weir::grps {

// A route of the configuration's own: how a request of any shape becomes inputs, and outputs become a response.
struct RouteSpec {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  std::string path;  // "/classify", "/classify/{k}"
  std::string method = "POST";
  std::string model;  // "" = the query's `model`, or the default
  // Input -> where it comes from: "query:k", "header:x-k", "path:k", "body:/a/0" (a JSON pointer, RFC 6901), "form:k"
  // (a field of an urlencoded or multipart form), or "body": all of it, as it is. "base64:" before any of them: what is
  // there is base64.
  Pairs inputs;
  // JSON pointer in the response -> output; empty = every output under its name. An output of one element is a scalar.
  Pairs outputs;
  std::string raw_output;  // instead: this output's own bytes are the response
  uint32_t status = 200;
  std::string content_type;         // "" = application/json, or application/octet-stream for raw_output
  std::string streaming;            // as Options::streaming; "" = nothing
  std::string stream_content_type;  // "" = what belongs to the StreamFormat that the client accepts
  uint32_t error_status = 0;        // of every error; 0 = what belongs to it
  // The body of an error, with {message}, {code} (HTTP's number) and {name} (INVALID_ARGUMENT) filled in as the type
  // wants them escaped; "" = as the built-in endpoints answer.
  std::string error_body;
  std::string error_content_type;  // "" = application/json where the body begins with a bracket, else text/plain
};

// These return what is wrong with a setting, in words for a person; empty: nothing is.
std::string check(const RouteSpec& route);
std::string check_streaming(std::string_view control);

struct Options {
  std::string server_version;
  // Switches streaming on where it says true: "query_param:k", "header_param:x-k", or "body_param:k", a member of
  // a JSON body ("body_param:/a/k" inside another); "" = nothing does.
  std::string streaming = "query_param:streaming";
  std::vector<RouteSpec> routes;
  uint64_t max_body = 64 << 20;      // of one HTTP request
  wire::Offload* offload = nullptr;  // reads and writes long JSON; null: the shard does
};

}  // namespace weir::grps
