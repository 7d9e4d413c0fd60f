#include "app/remote.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "net/url.h"
#include "wire/text.h"

namespace weir::app {
namespace {

using nlohmann::json;

constexpr size_t kLongestComplaint = 2000;

base::Result<net::Client::HeaderList> key_fields(const Remote& remote) {
  const char* variable = std::getenv("WEIR_API_KEY");
  const std::string key = !remote.key.empty() ? remote.key : variable ? variable : "";
  net::Client::HeaderList fields;
  if (key.empty()) return fields;
  if (wire::has_control(key) || key.find(' ') != std::string::npos)
    return base::invalid("--key: a key is one word without blanks and control characters");
  fields.emplace_back("authorization", "Bearer " + key);
  return fields;
}

// The text of {"error": "…"}, {"error": {"message": "…"}}, {"reason": "…"}, {"message": "…"}.
std::string words_of(const std::string& body) {
  auto parsed = json::parse(body, nullptr, false);
  if (!parsed.is_object()) return {};
  for (const char* key : {"error", "reason", "message"}) {
    auto found = parsed.find(key);
    if (found == parsed.end()) continue;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("message") && (*found)["message"].is_string())
      return (*found)["message"].get<std::string>();
  }
  return {};
}

}  // namespace

base::Result<RemoteAddress> find(const Remote& remote, net::TlsContext::Offer offer) {
  auto fields = key_fields(remote);
  if (!fields) return fields.error();
  RemoteAddress out{remote.url, remote.url, nullptr, {}, std::move(*fields)};
  if (remote.url.starts_with("unix:")) {
    out.authority = "localhost";
    return out;
  }
  if (!remote.url.starts_with("http://") && !remote.url.starts_with("https://")) return out;
  auto url = net::parse_url(remote.url);
  if (!url) return base::invalid("--url: " + url.error().text);
  if (url->target != "/")
    return base::invalid("--url: expected a server, http://HOST:PORT, without a path: '" + remote.url + "'");
  const bool ipv6 = url->host.find(':') != std::string::npos;
  out.address = (ipv6 ? "[" + url->host + "]" : url->host) + ":" + std::to_string(url->port);
  out.authority = url->authority();
  if (url->scheme == net::Url::Scheme::kHttp) return out;
  auto tls = net::TlsContext::for_client(remote.ca_file, offer);
  if (!tls) return base::failure(tls.error().code, "--ca: " + tls.error().text);
  out.tls = std::move(*tls);
  out.tls_host = url->host;
  return out;
}

base::Result<net::Client> connect_to(const Remote& remote, const net::Interrupt* interrupt) {
  auto where = find(remote);
  if (!where) return where.error();
  net::Client::Options options;
  options.timeout = remote.timeout;
  options.tls = where->tls, options.tls_host = where->tls_host;
  options.interrupt = interrupt;
  options.fields = std::move(where->fields);
  return net::Client(where->address, std::move(options));
}

base::Result<net::Client::Reply> ask(const Remote& remote, std::string_view method, const std::string& target,
                                     const std::string& json) {
  auto client = connect_to(remote);
  if (!client) return client.error();
  net::Client::HeaderList fields;
  if (!json.empty()) fields.emplace_back("content-type", "application/json");
  return client->request(method, target, fields, json);
}

std::string complaint(const base::Result<net::Client::Reply>& reply) {
  if (!reply) return printable(reply.error().text);
  if (reply->status >= 200 && reply->status < 300) return {};
  std::string words = printable(words_of(reply->body).substr(0, kLongestComplaint));
  if (words.empty()) words = "the server answered " + std::to_string(reply->status);
  if (const auto location = reply->find("location"); reply->status < 400 && !location.empty())
    words += ": what was asked for is at " + printable(std::string(location.substr(0, kLongestComplaint)));
  if (reply->status == 401) words += " (a key is given by --key or WEIR_API_KEY)";
  return words;
}

std::string printable(const std::string& text) {
  std::string out = base::presentable(text, text.size());
  std::replace(out.begin(), out.end(), '\n', '?');
  // The control characters beyond ASCII, U+0080 to U+009F, are C2 80 to C2 9F.
  for (size_t i = 0; i + 1 < out.size(); ++i)
    if (out[i] == '\xc2' && uint8_t(out[i + 1]) < 0xa0) out.replace(i, 2, "?");
  return out;
}

Exit fail(const std::string& text) {
  std::fprintf(stderr, "weir: %s\n", text.c_str());
  return Exit::kFailed;
}

}  // namespace weir::app
