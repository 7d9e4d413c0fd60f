// OpenAPI 3.1 (spec.openapis.org/oas/v3.1.0) of what a server answers, made from the table of its routes: each route is
// there by itself, its permission and its path's parameters included. Methods of gRPC services get their schemas from
// the linked protobuf descriptors (ProtoJSON). What a route cannot tell, its dialect's text does (Dialect::openapi):
//
//   {"aliases": {"/versions/{version}": ""},    a part of a path that another path is described without
//    "error": "OipError",                       of the dialect's operations: a content, as below
//    "operations": {"POST /v2/models/{model}/infer": {
//      "summary": "…", "description": "…",
//      "query": {"<name>": "…"},                parameters of the query, and what they mean
//      "request": "InferRequest",               a content: the name of a schema for application/json, or
//      "response": {"text/plain": "Text"},      {"<content type>": "<schema>", …}
//      "status": 200}},                         of the good answer
//    "schemas": {"InferRequest": {…}}}          JSON Schema; names of protobuf messages need none. A schema that has
//                                               "generationParameters": true gets the properties of that table
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "msg/spec.h"
#include "wire/router.h"

namespace weir::ops {

// The text of the server's own routes: health, metrics, pages.
std::string_view own_openapi();

// The document, as JSON. `texts`: of the dialects; where two describe one operation, the later is right. Aborts on a
// text that is not of the form above: they are part of the program.
std::string write_openapi(std::vector<const wire::Route*> routes, const std::vector<std::string>& texts,
                          std::string_view version);

// That of one model: the document's operations with {model} in their path, with the model's name, tensors, types and
// shapes in their place.
std::string write_openapi(std::string_view document, const msg::ModelSpec& spec);

// Any of these documents as a page: one line for each operation, which opens. No script, nothing from elsewhere.
// `root` is the page's way_to_root() (html.h).
std::string write_reference(std::string_view document, std::string_view root);

}  // namespace weir::ops
